"""Figures as rows: a row per group.

Source: docs/contract.md#6-stats: its keys come first, kdump's own after them.
"""

from __future__ import annotations

from typing import Any, Final

from kdump.reading.outcomes import OUTCOMES
from kdump.rows.columns import Row
from kdump.rows.filetables import STATS
from kdump.stats.groupfigures import MOST_PRODUCERS, Figures, Share
from kdump.stats.grouping import By
from kdump.stats.keys import HeavyKey
from kdump.stats.producers import ProducerStats
from kdump.stats.sizes import QUANTILES, RELATIVE_ERROR, SizeSummary

_OF_BATCHES: Final = (
    "batches", "controlBatches", "missingOffsets", "indexEntries", "timeIndexEntries", "transactions", "producers",
    "largestProducers", "damagedBatches", "damagedBytes",
)  # fmt: skip
"""Columns that say nothing of a group by contents."""


def stats_row(figures: Figures, by: By, header: str = "") -> Row:
    """Values by the columns of the table STATS; null where headers do not show a value, or batches are in no group.

    ``header``: whose values the groups are.
    """
    row = _row(figures, f"{by.value}:{header}" if by is By.HEADER else by.value)
    if by.is_of_contents and figures.group is not None:
        row |= dict.fromkeys(_OF_BATCHES)
        for name in ("codecs", "magics"):
            row[name] = {codec: share | {"batches": None, "bytes": None} for codec, share in row[name].items()}
    return row


def _row(figures: Figures, by: str) -> Row:
    sums = figures.sums
    deep = figures.with_records
    return {
        "type": STATS.type,
        "by": by,
        "group": figures.group,
        "files": figures.files,
        "bytes": sums["bytes"],
        "batches": sums["batches"],
        "controlBatches": sums["control_batches"],
        "records": sums["records"],
        "controlRecords": sums["control_records"],
        "nullKeys": sums["null_keys"] if deep else None,
        "tombstones": sums["tombstones"] if deep else None,
        "minOffset": figures.min_offset,
        "maxOffset": figures.max_offset,
        "minTimestamp": figures.min_timestamp,
        "maxTimestamp": figures.max_timestamp,
        "bytesPerSecond": _rounded(figures.rate("bytes")),
        "recordsPerSecond": _rounded(figures.rate("records")),
        "batchSize": _sizes(figures.sizes["batch"]),
        "recordSize": _sizes(figures.sizes["record"]),
        "keySize": _sizes(figures.sizes["key"]),
        "valueSize": _sizes(figures.sizes["value"]),
        "keyBytes": sums["key_bytes"] if deep else None,
        "valueBytes": sums["value_bytes"] if deep else None,
        "headers": sums["headers"] if deep else None,
        "headerBytes": sums["header_bytes"] if deep else None,
        "recordsWithHeaders": sums["records_with_headers"] if deep else None,
        "codecs": {share.name: _share(share) | _ratio(share) for share in figures.codecs},
        "magics": {share.name: _share(share) for share in figures.magics},
        "timestampTypes": figures.timestamp_types,
        "timestampsBack": sums["timestamps_back"] if deep else None,
        "largestStepBack": figures.step_back,
        "missingOffsets": sums["missing_offsets"],
        "indexEntries": sums["index_entries"],
        "timeIndexEntries": sums["time_index_entries"],
        "bytesPerIndexEntry": _rounded(figures.bytes_per_index_entry),
        "transactions": {
            outcome: {name: sums[f"{outcome}_{name}"] for name in ("transactions", "records", "bytes")}
            for outcome in OUTCOMES
        },
        "producers": len(figures.producers),
        "largestProducers": [_producer(stats) for stats in figures.producers.first(MOST_PRODUCERS)],
        "distinctKeys": None if figures.distinct_keys is None else figures.distinct_keys._asdict(),
        "heaviestKeys": [_key(heavy) for heavy in figures.heaviest_keys] if deep else None,
        "damagedBatches": sums["damaged_batches"],
        "damagedBytes": sums["damaged_bytes"],
        "errors": figures.errors,
        "warnings": figures.warnings,
    }


def _sizes(summary: SizeSummary | None) -> Row | None:
    if summary is None:
        return None
    names = [f"p{quantile * 100:g}".replace(".", "") for quantile in QUANTILES]
    return {
        "count": summary.count,
        "mean": _rounded(summary.mean),
        "min": summary.least,
        **dict(zip(names, summary.quantiles, strict=True)),
        "max": summary.most,
        "error": RELATIVE_ERROR,
    }


def _share(share: Share) -> Row:
    return {"batches": share.batches, "records": share.records, "bytes": share.size}


def _ratio(share: Share) -> Row:
    return {"storedBytes": share.stored, "uncompressedBytes": share.uncompressed, "ratio": _rounded(share.ratio)}


def _producer(stats: ProducerStats) -> Row:
    return {
        "producerId": stats.producer_id,
        "epochs": list(stats.epochs),
        "batches": stats.batches,
        "records": stats.records,
        "bytes": stats.size,
        "lastOffset": stats.last_offset,
        "lastSequence": stats.last_sequence,
        "lastTimestamp": stats.last_timestamp,
    }


def _key(heavy: HeavyKey) -> Row:
    return {"key": heavy.key, "isCut": heavy.is_cut, "leastBytes": heavy.least, "mostBytes": heavy.most}


def _rounded(number: Any) -> float | None:
    return None if number is None else round(number, 3)
