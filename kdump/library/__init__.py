"""The functions and values of ``import kdump``, over what the commands are made of. See docs/library.md."""
