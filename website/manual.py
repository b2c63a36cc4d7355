"""Manual pages as pages of the site: from man(7) macros to Markdown with HTML in it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

MANUAL = Path(__file__).parents[1] / "man"

_SIGNS = {"aq": "'", "bu": "•", "dq": '"', "ha": "^", "ti": "~"}
_FONTS = {"B": "strong", "I": "em"}
_PLAIN = "R"
_PAGE = re.compile(r"(?:<strong>)?(kdump(?:-\w+)?)(?:</strong>)?\s*\((\d)\)")
_CODE = re.compile(r"\bKD\d{3}\b")
_WORDS = re.compile(r'"((?:[^"]|"")*)"|(\S+)')


def names() -> list[str]:
    """The manual pages, the one of the program first."""
    return sorted((path.name for path in MANUAL.glob("kdump*.?")), key=lambda name: (name.count("-"), name))


def page(name: str) -> str:
    """The Markdown of a manual page.

    Args:
        name: of the file, such as ``kdump-dump.1``.

    Raises:
        ValueError: the page uses a macro that this module does not know.
    """
    source = (MANUAL / name).read_text("utf-8")
    title, _, section = name.partition(".")
    return f"# {title}({section})\n\n" + "\n".join(_Page(source).blocks()) + "\n"


class _Page:
    """One page while it is converted."""

    def __init__(self, source: str) -> None:
        self._lines = [line for line in source.splitlines() if not line.startswith('.\\"')]
        self._text: list[str] = []
        """Pieces of the paragraph that is being read."""
        self._open: list[str] = []
        """HTML elements that are open."""
        self._anchors: set[str] = set()

    def blocks(self) -> Iterator[str]:
        """Headings, paragraphs, lists and examples."""
        lines = iter(self._lines)
        for line in lines:
            macro, _, rest = line.partition(" ") if line.startswith(".") else ("", "", "")
            match macro:
                case "" | ".B" | ".I" | ".BR" | ".BI" | ".IR" | ".IB" | ".RB" | ".RI":
                    self._text.append(_line(line))
                case ".TH":
                    pass
                case ".SH" | ".SS":
                    yield from self._closed()
                    yield f"\n{'##' if macro == '.SH' else '###'} {_plain(rest)}\n"
                case ".PP":
                    yield from self._closed()
                case ".br":
                    self._text.append("<br>")
                case ".EX" | ".nf":
                    yield from self._paragraph()
                    yield _example(lines)
                case ".TP":
                    yield from self._in_list("dl")
                    tag = _line(next(lines))
                    yield f"<dt{self._anchor(tag)}>{_linked(tag)}</dt><dd>"
                    self._open.append("dd")
                case ".IP" if rest:
                    yield from self._in_list("ul")
                    yield "<li>"
                    self._open.append("li")
                case ".IP":
                    yield from self._paragraph()
                case _:
                    raise ValueError(f"{macro} is not known")
        yield from self._closed()

    def _anchor(self, tag: str) -> str:
        """The attribute with which links lead to a paragraph with this tag; empty if an earlier one has it."""
        name = _identity(tag)
        if not name or name in self._anchors:
            return ""
        self._anchors.add(name)
        return f' id="{name}"'

    def _paragraph(self) -> Iterator[str]:
        if self._text:
            yield f"<p>{_linked(' '.join(self._text))}</p>"
            self._text.clear()

    def _closed(self) -> Iterator[str]:
        """The end of a paragraph and of all lists."""
        yield from self._paragraph()
        while self._open:
            yield f"</{self._open.pop()}>"

    def _in_list(self, kind: str) -> Iterator[str]:
        """The end of an item, and the beginning of a list if this is its first one."""
        yield from self._paragraph()
        if self._open[:1] == [kind]:
            yield f"</{self._open.pop()}>"
        else:
            yield from self._closed()
            yield f"<{kind}>"
            self._open.append(kind)


def _example(lines: Iterator[str]) -> str:
    """What stands between .EX and .EE, or .nf and .fi."""
    kept = []
    for line in lines:
        if line in (".EE", ".fi"):
            break
        kept.append(_plain(line) if not line.startswith(".") else re.sub("<.*?>", "", _line(line)))
    return f"<pre><code>{html.escape(chr(10).join(kept), quote=False)}\n</code></pre>"


def _line(line: str) -> str:
    """One line of text or of a macro for letters, as HTML."""
    match = re.match(r"\.(B|I|[BIR]{2})(?: (.*))?$", line)
    if match is None:
        return _inline(line)
    fonts, rest = match[1], match[2] or ""
    words = [found[1].replace('""', '"') if found[2] is None else found[2] for found in _WORDS.finditer(_kept(rest))]
    if len(fonts) == 1:
        return _in_font(fonts, " ".join(map(_inline, words)))
    return "".join(_in_font(fonts[number % 2], _inline(word)) for number, word in enumerate(words))


def _kept(text: str) -> str:
    """A blank that separates no words is one that does not break."""
    return text.replace("\\ ", "\N{NO-BREAK SPACE}")


def _in_font(font: str, text: str) -> str:
    return text if font == _PLAIN or not text else f"<{_FONTS[font]}>{text}</{_FONTS[font]}>"


def _inline(text: str) -> str:
    """Text with its escapes, as HTML."""
    opened = ""
    pieces = []
    for piece in re.split(r"(\\f[BIRP])", text):
        if re.fullmatch(r"\\f[BIRP]", piece):
            if opened:
                pieces.append(f"</{opened}>")
            opened = _FONTS.get(piece[-1], "")
            if opened:
                pieces.append(f"<{opened}>")
        else:
            pieces.append(html.escape(_plain(piece), quote=False))
    return "".join(pieces) + (f"</{opened}>" if opened else "")


def _plain(text: str) -> str:
    """Text without escapes, and a heading without its quotes."""
    text = re.sub(r"\\\((\w\w)", lambda found: _SIGNS[found[1]], _kept(text))
    text = re.sub(r"\\(?:&|c|f[BIRP])", "", text).replace("\\-", "-").replace("\\e", "\\")
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _identity(tag: str) -> str:
    """The anchor of a paragraph with a tag: its code, else its first long option."""
    text = html.unescape(re.sub("<.*?>", "", tag))
    found = _CODE.match(text) or re.search(r"--[a-z][\w-]*", text)
    return found[0] if found else ""


def _linked(text: str) -> str:
    """HTML in which other manual pages and the codes of findings are links."""
    known = set(names())
    text = _PAGE.sub(
        lambda found: (
            f'<a href="{found[1]}.{found[2]}.html">{found[1]}({found[2]})</a>'
            if f"{found[1]}.{found[2]}" in known
            else found[0]
        ),
        text,
    )
    return _CODE.sub(lambda found: f'<a href="../findings/{found[0]}.html">{found[0]}</a>', text)
