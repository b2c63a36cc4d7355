"""docs/glossary.md: each word once, in alphabetical order, with one paragraph."""

from __future__ import annotations

import re

from tests.harness import ROOT

GLOSSARY = (ROOT / "docs/glossary.md").read_text()
WORDS = dict(re.findall(r"^## (.+)\n\n(.+)\n", GLOSSARY, re.MULTILINE))


def test_words_are_in_order_and_there_once() -> None:
    """A word that is there twice, or without its paragraph, makes the lists differ."""
    words = re.findall(r"^## (.+)", GLOSSARY, re.MULTILINE)
    assert words == list(WORDS)
    assert words == sorted(words, key=lambda word: re.sub(r"[-_]", " ", word.lower()))
