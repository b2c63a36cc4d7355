"""The entries of a directory listing."""

from __future__ import annotations

from typing import NamedTuple


class ListingEntry(NamedTuple):
    """A file or directory in a listing. ``size`` is in bytes, None where the listing does not have it.

    A link to a directory is no directory where it must not be followed; see ``named.check_link``.
    """

    name: str
    path: str
    is_directory: bool
    size: int | None = None
