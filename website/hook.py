"""The hook of mkdocs: adds the generated pages, and makes links of Markdown files lead to pages of the site."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import TYPE_CHECKING, Any

# mkdocs loads this file by its path, not as a part of the package.
sys.path.insert(0, str(Path(__file__).parents[1]))

from mkdocs.structure.files import File, Files

from kdump.codes import Codes
from website import findings, manual
from website.pages import ROOT, ROOT_PAGES, generated

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]+)\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lists the pages of findings, manual and specifications, of which ``mkdocs.yml`` names only the folders."""
    specifications = [f"spec/{path.name}" for path in sorted((ROOT / "docs" / "spec").glob("*.md"))]
    listed = {
        "findings/": [findings.INDEX, *(findings.uri(entry.value.code) for entry in Codes)],
        "man/": [f"man/{name}.md" for name in manual.names()],
        "spec/": specifications,
    }
    assert config.nav is not None
    config.nav = [_with_pages(item, listed) for item in config.nav]
    return config


def _with_pages(item: dict[str, Any], listed: dict[str, list[str]]) -> dict[str, Any]:
    return {title: listed.get(pages, pages) if isinstance(pages, str) else pages for title, pages in item.items()}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds what is generated."""
    for uri, text in generated():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: object) -> str:
    """Links by paths of the repository become links between pages; what is not on the site is named without a link."""
    uri = page.file.src_uri
    folder = dirname(uri if uri in ROOT_PAGES else f"docs/{uri}")

    def changed(found: re.Match[str]) -> str:
        text, path, anchor = found["text"], found["path"], found["anchor"] or ""
        target = normpath(f"{folder}/{path}" if folder else path)
        site = target.removeprefix("docs/")
        if (target.startswith("docs/") or target in ROOT_PAGES) and files.get_file_from_path(site) is not None:
            return f"[{text}]({relpath(site, dirname(uri) or '.')}{anchor})"
        return found[0] if not (ROOT / target).exists() else text

    return _LINK.sub(changed, markdown)
