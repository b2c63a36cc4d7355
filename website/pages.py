"""The pages of the site that are not in ``docs/``: made when it is built, so that there are no copies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kdump.codes import Codes
from website import columns, findings, library, manual

ROOT = Path(__file__).parents[1]
ROOT_PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
"""Pages in the root of the repository that are pages of the site too."""


def generated() -> Iterator[tuple[str, str]]:
    """Path and text of each page that is not in ``docs/``."""
    yield findings.INDEX, findings.index()
    for entry in Codes:
        yield findings.uri(entry.value.code), findings.page(entry.value)
    for name in manual.names():
        yield f"man/{name}.md", manual.page(name)
    yield columns.URI, columns.page()
    yield library.URI, library.page()
    for name in ROOT_PAGES:
        yield name, (ROOT / name).read_text("utf-8")
