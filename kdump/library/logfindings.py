"""What is wrong with files, as values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from kdump.codes import Finding
from kdump.library.arguments import Paths, paths_of
from kdump.log.context import FileContext
from kdump.log.files import strip_credentials
from kdump.rows.filetables import FINDING
from kdump.wire.compression import DEFAULT_LIMIT

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_AT_A_TIME: Final = 4096


@dataclass(frozen=True, slots=True, repr=False)
class LogFinding:
    """One thing that is wrong with a file, or worth knowing. ``str()`` is a line for people.

    ``path``: the file.
    """

    _finding: Finding
    path: str

    @property
    def code(self) -> str:
        """Stable, such as ``KD108``."""
        return self._finding.code.value.code

    @property
    def name(self) -> str:
        """The name of the code, such as ``batch-crc``."""
        return self._finding.code.value.name

    @property
    def severity(self) -> str:
        """``error``, ``warning`` or ``info``."""
        return self._finding.severity.value

    @property
    def message(self) -> str:
        """What is wrong here."""
        return self._finding.message

    @property
    def position(self) -> int:
        """Where it begins in the file (bytes)."""
        return self._finding.position

    @property
    def length(self) -> int | None:
        """Bytes concerned; None: not known."""
        return self._finding.length

    @property
    def first_offset(self) -> int | None:
        """The first offset that is lost at most; None: none is lost, or it is not known."""
        return self._finding.first_offset

    @property
    def last_offset(self) -> int | None:
        """The last offset that is lost at most."""
        return self._finding.last_offset

    @property
    def continue_at(self) -> int | None:
        """The first offset that a broker can serve after the damage."""
        return self._finding.continue_at

    @property
    def title(self) -> str:
        """What the code stands for, in a few words."""
        return self._finding.code.value.title

    @property
    def help(self) -> str:
        """The paragraph of the manual: what the code means, what Kafka does about it, what to do."""
        return self._finding.code.value.manual

    def to_dict(self) -> dict[str, Any]:
        """The row of the JSON lines of ``kdump verify``, with their names."""
        values = {"type": FINDING.type, **FileContext.of(self.path).columns(), **FINDING.row(self._finding)}
        return {name: values[name] for name in FINDING.names}

    def __str__(self) -> str:
        return f"{self.path}: {self.severity} {self.code} {self.name} {self._finding}"

    def __repr__(self) -> str:
        return f"<Finding {self.code} {self.name} at {self.position}>"


class Findings:
    """Findings, which are looked for each time that one iterates over them."""

    def __init__(self, find: Callable[[], Iterator[LogFinding]]) -> None:
        self._find = find

    def __iter__(self) -> Iterator[LogFinding]:
        return self._find()

    def to_arrow(self) -> pa.Table:
        """All findings as a table, with the columns of the JSON lines of ``kdump verify``. Needs pyarrow."""
        return finding_table(self)


def finding_table(found: Iterable[LogFinding]) -> pa.Table:
    """Findings as an Arrow table, with the columns of their JSON lines."""
    import pyarrow as pa

    from kdump.rows.arrow import row_batch, row_schema

    schema = row_schema(FINDING)
    rows = (finding.to_dict() for finding in found)
    batches = iter(lambda: list(islice(rows, _ROWS_AT_A_TIME)), [])
    return pa.Table.from_batches([row_batch(batch, schema) for batch in batches], schema)


def findings(paths: Paths, *, deep: bool = True, max_decompressed_size: int = DEFAULT_LIMIT) -> Findings:
    """What is wrong with segments, partitions and log directories, as ``kdump verify`` tells it.

    Args:
        paths: segment files, partition and log directories, URIs of them; one or many.
        deep: decode every record. False: framing and checksums only.
        max_decompressed_size: bytes; a batch that decompresses to more is refused.

    Returns:
        An iterable of findings: each has ``code`` ("KD108"), ``name``, ``severity``, ``message``, ``path``,
        ``position``, ``length``, ``first_offset``, ``last_offset``, ``continue_at``, ``title`` and ``help``. It reads
        while one iterates, and ``to_arrow()`` gives a table.

    Raises:
        KdumpError: while iterating, a path cannot be read. Of a directory, all that can be read comes first.
    """
    given = paths_of(paths)

    def find() -> Iterator[LogFinding]:
        from kdump.verify.run import findings as found_in

        for path in given:
            for finding in found_in(path, deep=deep, limit=max_decompressed_size):
                yield LogFinding(finding, finding.path or strip_credentials(path))

    return Findings(find)
