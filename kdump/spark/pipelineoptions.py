"""What a run of the pipeline is asked, and what it answers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kdump.payloads.choice import DecoderChoice

FORMATS: Final = ("parquet", "delta", "iceberg")
PARTITION_COLUMNS: Final = ("topic", "partition", "date")
ISOLATIONS: Final = ("read_uncommitted", "read_committed")


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """What lands, and how. All but ``fail_on`` and ``batch_bytes`` must stay the same for a TARGET.

    Attributes:
        format: of the records: parquet, delta or iceberg.
        partition_by: columns that are directories: topic, partition, date.
        decode: ``auto`` adds columns with decoded contents of internal topics.
        key_decoder: of keys; ``value_decoder``: of values. As in ``kdump dump``.
        schemas: where a schema registry keeps its schemas: values are decoded by them.
        isolation: read_uncommitted or read_committed.
        fail_on: ``error`` lands nothing of a partition with damage; ``never`` lands what can be read.
        batch_bytes: of logs; None: 8 GiB for each core.

    Raises:
        ValueError: a value that cannot be.
        KdumpError: the schemas cannot be read.
    """

    format: str = "parquet"
    partition_by: tuple[str, ...] = ("topic", "date")
    decode: str | None = None
    key_decoder: str | None = None
    value_decoder: str | None = None
    isolation: str = "read_uncommitted"
    fail_on: str = "never"
    batch_bytes: int | None = None
    schemas: str | None = None

    def __post_init__(self) -> None:
        for name, value, known in (
            ("format", self.format, FORMATS),
            ("isolation", self.isolation, ISOLATIONS),
            ("fail_on", self.fail_on, ("error", "never")),
            *(("partition_by", each, PARTITION_COLUMNS) for each in self.partition_by),
        ):
            if value not in known:
                raise ValueError(f"{name}: one of {', '.join(known)} was expected, not '{value}'")
        if len(set(self.partition_by)) < len(self.partition_by):
            raise ValueError("partition_by: a column is named twice")
        _ = self.decoding

    @property
    def decoding(self) -> DecoderChoice:
        """See ``options.parse_options``."""
        from kdump.spark.options import parse_options  # needs pyarrow

        given = {
            "decode": self.decode,
            "keyDecoder": self.key_decoder,
            "valueDecoder": self.value_decoder,
            "schemas": self.schemas,
        }
        found = parse_options({"path": ".", **{name: value for name, value in given.items() if value}}).decoding
        # Schemas that lie here are not those of what will be read.
        return found if self.schemas else found._replace(schemas=None)

    @property
    def lasting(self) -> dict[str, Any]:
        """What must stay the same, as the checkpoint has it."""
        changing = ("fail_on", "batch_bytes", *(() if self.schemas else ("schemas",)))
        return {name: value for name, value in json.loads(json.dumps(asdict(self))).items() if name not in changing}


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """What a run did. ``rows``: those of ``runs`` that it wrote. ``errors``: what could not be read.

    ``status``: 0 landed, 1 a partition was held back by the gate, 3 something cannot be read.
    """

    rows: list[dict[str, Any]]
    errors: list[str]

    @property
    def landed(self) -> int:
        """Records."""
        return sum(row["landed"] for row in self.rows)

    @property
    def held(self) -> list[str]:
        """The partitions that the gate held back."""
        return [each["directory"] for row in self.rows for each in row["partitions"] if each["held"]]

    @property
    def status(self) -> int:
        """As the exit status of the command."""
        return 3 if self.errors else int(bool(self.held))
