"""What ``--add-config`` of kafka-configs.sh takes, so that it sets what was meant and nothing else.

Source: ConfigCommand.parseConfigsToBeAdded of Kafka 4.3 and 4.4. Commas and equals signs separate, but for those in
brackets. Then brackets are removed everywhere, and blanks around names and values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_SPECIAL: Final = frozenset("[],=")
_BRACKETS: Final = frozenset("[]")


def add_config(settings: Iterable[tuple[str, str]]) -> tuple[str, list[str]]:
    """The argument for settings, given by names and values, and the names of those that it cannot set."""
    added, unset = [], []
    for name, value in settings:
        setting = _setting(name, value)
        if setting is None:
            unset.append(name)
        else:
            added.append(setting)
    return ",".join(added), unset


def _setting(name: str, value: str) -> str | None:
    if not name or _SPECIAL & set(name) or _BRACKETS & set(value) or _is_padded(name) or _is_padded(value):
        return None
    return f"{name}=[{value}]" if _SPECIAL & set(value) else f"{name}={value}"


def _is_padded(text: str) -> bool:
    """Whether a character at an end is one that String.trim() of Java removes."""
    return any(character <= " " for character in (text[:1], text[-1:]) if character)
