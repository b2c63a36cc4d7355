"""What a listing of a directory tells of each name in it."""

from __future__ import annotations

from typing import NamedTuple


class ListingEntry(NamedTuple):
    """A file or directory in a listing; ``size`` in bytes, None where the listing does not tell it.

    A link to a directory is none where it must not be followed; see ``named.check_link``.
    """

    name: str
    path: str
    is_directory: bool
    size: int | None = None
