"""Running a command over files: locally, in this process."""
