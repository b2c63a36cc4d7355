"""Whether an entry's CRC is right, and which one changed bit or byte would make it right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kdump.explain import kafka_says
from kdump.explain.lines import Line, Statement, Tone
from kdump.wire.syndrome import ByteFlip, single_change


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of checking a CRC over ``data[start:]``; ``field`` is the index of the stored CRC."""

    data: memoryview
    start: int
    field: int
    stored: int
    computed: int
    change: ByteFlip | None

    @property
    def is_right(self) -> bool:
        """Whether the stored and the computed CRC agree."""
        return self.stored == self.computed

    @property
    def suspect(self) -> int | None:
        """Index of the wrong byte if it can be found, else of the CRC field; None if the CRC is right."""
        if self.is_right:
            return None
        if self.change is None or self.change.place is None:
            return self.field
        return self.start + self.change.place

    def lines(self, position: int, kafka: str = kafka_says.WRONG_CRC) -> Iterator[Line]:
        """The verdict in words; ``position``: of ``data[0]``; ``kafka``: what Kafka does about a wrong CRC."""
        if self.is_right:
            yield Statement(Tone.TEXT, f"The CRC is right: {self.stored:#010x}.")
            return
        yield Statement(Tone.DAMAGE, f"The CRC is wrong: stored {self.stored:#010x}, computed {self.computed:#010x}.")
        if self.change is not None:
            yield Statement(Tone.DAMAGE, self._explanation(self.change, position))
        yield Statement(Tone.KAFKA, kafka)

    def _explanation(self, change: ByteFlip, position: int) -> str:
        if change.place is None:
            return f"One flipped bit in the stored CRC explains it (mask {change.mask:#010x}): the rest is right."
        index = self.start + change.place
        byte = self.data[index]
        if change.mask.bit_count() == 1:
            what = f"One flipped bit explains it: bit {change.mask.bit_length() - 1} of byte {position + index}"
        else:
            what = f"One changed byte explains it: byte {position + index}"
        return f"{what}, which is {byte:#04x} and would be {byte ^ change.mask:#04x}."


def judge(data: memoryview, start: int, field: int, *, computed: int, polynomial: int) -> Verdict:
    """Check the CRC of a whole entry.

    Args:
        data: the entry.
        start: index of the first byte under the CRC, which covers all from there.
        field: index of the stored CRC.
        computed: the CRC of those bytes.
        polynomial: of the CRC, reflected.
    """
    stored = int.from_bytes(data[field : field + 4], "big")
    return Verdict(data, start, field, stored, computed, single_change(stored, computed, len(data) - start, polynomial))
