"""The standing fuzzer: damaged and hostile inputs through every reader and every command, see ``__main__``."""
