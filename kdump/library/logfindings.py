"""What is wrong with files, as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from kdump.codes import Finding
from kdump.inputs import paths_with_tier
from kdump.library.answerrows import AnswerRow
from kdump.library.arguments import Paths, paths_of
from kdump.log.context import FileContext
from kdump.log.files import strip_credentials
from kdump.log.tiers import Tier
from kdump.rows.filetables import FINDING, finding_row
from kdump.wire.compression import DEFAULT_LIMIT

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_AT_A_TIME: Final = 4096


class LogFinding(AnswerRow):
    """One thing that is wrong with a file, or worth knowing. ``str()`` is a line for people.

    Its attributes are the columns of the JSON lines of ``kdump verify``, and these:

    ``path``: the file. ``title``: what the code stands for, in a few words. ``help``: the paragraph of the manual: what
    the code means, what Kafka does about it, what to do.
    """

    __slots__ = ("_line", "help", "path", "title")

    code: str
    """Stable, such as ``KD108``."""
    name: str
    """The name of the code, such as ``batch-crc``."""
    severity: str
    """``error``, ``warning`` or ``info``."""
    message: str
    """What is wrong here."""
    position: int
    """Where it begins in the file (bytes)."""
    length: int | None
    """Bytes concerned; None: not known."""
    first_offset: int | None
    """The first offset that is lost at most; None: none is lost, or it is not known."""
    last_offset: int | None
    """The last offset that is lost at most."""
    continue_at: int | None
    """The first offset that a broker can serve after the damage."""

    def __init__(self, finding: Finding, path: str) -> None:
        super().__init__(finding_row(finding, FileContext.of(path)))
        self.path = path
        self.title = finding.code.value.title
        self.help = finding.code.value.manual
        self._line = f"{path}: {self.severity} {self.code} {self.name} {finding}"

    def __str__(self) -> str:
        return self._line

    def __repr__(self) -> str:
        return f"<Finding {self.code} {self.name} at {self.position}>"


class Findings:
    """Findings, which are looked for each time that one iterates over them."""

    def __init__(self, paths: tuple[str, ...], *, deep: bool, limit: int) -> None:
        self._paths = paths
        self._deep = deep
        self._limit = limit

    def __iter__(self) -> Iterator[LogFinding]:
        from kdump.verify.run import findings

        for path in self._paths:
            for finding in findings(path, deep=self._deep, limit=self._limit):
                yield LogFinding(finding, finding.path or strip_credentials(path))

    def to_arrow(self) -> pa.Table:
        """All findings as a table, with the columns of the JSON lines of ``kdump verify``. Needs pyarrow."""
        import pyarrow as pa

        from kdump.rows.arrow import row_batch, row_schema

        schema = row_schema(FINDING)
        rows = (finding.to_dict() for finding in self)
        batches = iter(lambda: list(islice(rows, _ROWS_AT_A_TIME)), [])
        return pa.Table.from_batches([row_batch(batch, schema) for batch in batches], schema)


def findings(
    paths: Paths,
    *,
    deep: bool = True,
    max_decompressed_size: int = DEFAULT_LIMIT,
    tier: str | None = None,
    key_ring: Mapping[str, str] | None = None,
) -> Findings:
    """What is wrong with segments, partitions and log directories, as ``kdump verify`` tells it.

    Args:
        paths: segment files, partition and log directories, URIs of them; one or many.
        deep: decode every record. False: framing and checksums only.
        max_decompressed_size: bytes; a batch that decompresses to more is refused.
        tier: the bucket with the remote segments of the log directories, which is checked with them.
        key_ring: files with the private keys of encrypted buckets, by their ids.

    Returns:
        An iterable of findings: each has ``code`` ("KD108"), ``name``, ``severity``, ``message``, ``path``,
        ``position``, ``length``, ``first_offset``, ``last_offset``, ``continue_at``, ``title`` and ``help``. It reads
        while one iterates, and ``to_arrow()`` gives a table.

    Raises:
        KdumpError: while iterating, a path cannot be read. Of a directory, all that can be read comes first.
    """
    given = paths_with_tier(paths_of(paths), Tier(tier, key_ring or {}))
    return Findings(given, deep=deep, limit=max_decompressed_size)
