"""JSON objects of the commands as values.

Attributes are the members of the JSON objects in snake_case. A member that is an object or an array itself stays what
JSON makes of it, with its own names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn, Protocol, Self, TypeVar

from kdump.codes import KdumpError
from kdump.library.objects import snake_case
from kdump.log.files import strip_credentials
from kdump.rows.scalarlines import json_line


class JsonRow(Protocol):
    """A value that a JSON line of a command tells."""

    def to_dict(self) -> dict[str, Any]:
        """The members of the JSON object, with their names."""


RowT = TypeVar("RowT", bound=JsonRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonValue:
    """A JSON object."""

    _members: dict[str, Any] = field(repr=False, compare=False)

    @classmethod
    def of(cls, text: str) -> Self:
        """The value of a JSON object."""
        return cls.of_members(json.loads(text))

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """The value of the JSON line of a row."""
        return cls.of(json_line(list(row), list(row.values())))

    @classmethod
    def of_members(cls, members: dict[str, Any]) -> Self:
        """The value of the members of a JSON object."""
        known = {one.name for one in fields(cls)}
        values = {snake_case(name): value for name, value in members.items()}
        return cls(_members=members, **{name: value for name, value in values.items() if name in known})

    def to_dict(self) -> dict[str, Any]:
        """The members of the JSON object, with their names."""
        return dict(self._members)


class JsonRows:
    """The JSON lines of a command as values, in their order."""

    def __init__(self, rows: Iterable[JsonRow]) -> None:
        self.rows: Sequence[JsonRow] = tuple(rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The JSON objects."""
        return [row.to_dict() for row in self.rows]

    def select(self, kind: type[RowT]) -> list[RowT]:
        """The values of one class."""
        return [row for row in self.rows if isinstance(row, kind)]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.rows)} rows>"


def named(paths: Iterable[str]) -> Iterator[str]:
    """The paths, each once, without their credentials."""
    return (strip_credentials(path) for path in dict.fromkeys(paths))


def fail(error: KdumpError) -> NoReturn:
    """In the library an error ends the call."""
    raise error
