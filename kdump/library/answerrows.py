"""Rows of what the commands tell: the answers of the library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, overload

from kdump.rows.columns import Row, camel_case, snake_case
from kdump.rows.scalarlines import plain


class AnswerRow:
    """A row of what a command tells.

    Its attributes are the members of the JSON object of the command, in snake_case: ``row.log_end_offset`` is
    ``logEndOffset``. A member that is an object or an array itself stays what JSON makes of it, with its own names.
    """

    __slots__ = ("_members",)

    def __init__(self, row: Row) -> None:
        self._members: dict[str, Any] = plain(row)

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of the command."""
        return dict(self._members)

    def __getattr__(self, name: str) -> Any:
        member = camel_case(name)
        # Python itself asks for names with an underscore, pickle before there are members.
        if name.startswith("_") or snake_case(member) != name or member not in self._members:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return self._members[member]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *map(snake_case, self._members)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnswerRow) and self._members == other._members

    def __hash__(self) -> int:
        return hash(frozenset(self._members.items()))

    def __repr__(self) -> str:
        members = (f"{snake_case(name)}={value!r}" for name, value in self._members.items())
        return f"<Row {' '.join(members)}>"


class AnswerRows:
    """Rows of several types, in the order of the command.

    ``rows``: all of them.
    """

    def __init__(self, rows: Iterable[AnswerRow]) -> None:
        self.rows: Sequence[AnswerRow] = tuple(rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The JSON objects of the command."""
        return [row.to_dict() for row in self.rows]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.rows)} rows>"


class RowsOfType:
    """An attribute of AnswerRows: the rows of one type."""

    def __init__(self, type: str) -> None:
        self._type = type

    @overload
    def __get__(self, answer: None, owner: type) -> Self: ...

    @overload
    def __get__(self, answer: AnswerRows, owner: type) -> list[AnswerRow]: ...

    def __get__(self, answer: AnswerRows | None, owner: type) -> Self | list[AnswerRow]:
        return self if answer is None else [row for row in answer.rows if row.type == self._type]


class ClusterState(AnswerRows):
    """What ``kdump state`` tells of a cluster, each type of row in a list of its own."""

    metadata = RowsOfType("metadata")
    """One for each cluster among the paths: which state this is."""
    voters = RowsOfType("voter")
    """Of the quorum of controllers."""
    features = RowsOfType("feature")
    """Finalized ones."""
    brokers = RowsOfType("broker")
    """Registered ones."""
    controllers = RowsOfType("controller")
    """Registered ones."""
    topics = RowsOfType("topic")
    """All of them, by name."""
    partitions = RowsOfType("partition")
    """All of them, by topic and number."""
    configs = RowsOfType("config")
    """Those of topics, brokers and other resources."""
    quotas = RowsOfType("quota")
    """Those of clients."""
    producer_ids = RowsOfType("producerIds")
    """The next one; none where no block of ids was given out."""
    acls = RowsOfType("acl")
    """Access control entries."""
    scram = RowsOfType("scram")
    """Credentials."""
    tokens = RowsOfType("token")
    """Delegation tokens."""
    groups = RowsOfType("group")
    """Of the partitions of ``__consumer_offsets`` among the paths."""
    group_offsets = RowsOfType("committedOffset")
    """What the groups had committed."""
    transactional_ids = RowsOfType("transactionalId")
    """Of the partitions of ``__transaction_state`` among the paths."""
    open_transactions = RowsOfType("openTransaction")
    """Of the partitions among the paths."""
    findings = RowsOfType("finding")
    """What is wrong with the metadata logs, as ``kdump.findings`` gives it."""


class Differences(AnswerRows):
    """What ``kdump diff`` tells, partition after partition. Iterating gives the differences."""

    copies = RowsOfType("copy")
    """The copies that were compared."""
    common = RowsOfType("common")
    """For each partition the offsets that all copies may hold."""
    absent = RowsOfType("absent")
    """Which PATH lacks which partition."""
    truncations = RowsOfType("truncation")
    """What each copy loses as the follower of each other one."""
    recommendations = RowsOfType("recommendation")
    """Which copy of each partition should lead."""
    records = RowsOfType("record")
    """The records that differ, if they were asked for."""
    _differences = RowsOfType("difference")

    def __iter__(self) -> Iterator[AnswerRow]:
        return iter(self._differences)

    def __len__(self) -> int:
        return len(self._differences)
