"""Sequences whose members are made when they are asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar, overload

_Member = TypeVar("_Member")


class OnDemand(Sequence[_Member]):
    """A sequence that makes each member when it is asked for: all of them as objects would take too much memory."""

    @abstractmethod
    def made(self, number: int) -> _Member:
        """The member of this number. Raises IndexError."""

    @overload
    def __getitem__(self, number: int) -> _Member: ...
    @overload
    def __getitem__(self, number: slice) -> list[_Member]: ...
    def __getitem__(self, number: int | slice) -> _Member | list[_Member]:
        if isinstance(number, slice):
            return [self.made(each) for each in range(*number.indices(len(self)))]
        return self.made(number)
