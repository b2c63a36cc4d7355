timeout: failed to run command ‘../k’: No such file or directory
