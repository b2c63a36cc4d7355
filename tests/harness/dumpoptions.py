"""The options of a dump in the compatible text, under the names of DumpLogSegments."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from kdump.dump.dialects.versions import DIALECTS
from kdump.dump.output import DumpOptions
from kdump.dump.text.dialect import NEWEST_DIALECT
from kdump.dump.text.options import TextOptions
from kdump.dump.text.output import text_output
from kdump.payloads.choice import DecoderChoice
from kdump.reading.view import DecodePath, ViewOptions


def text_dump(
    *,
    read_committed: bool = False,
    secret: bytes | None = None,
    decoding: DecoderChoice | None = None,
    dialect: str | None = None,
    **options: Any,
) -> DumpOptions:
    """The options of a dump; ``options`` are those of ``ViewOptions`` and ``TextOptions``, and ``deep_iteration``."""
    dialect = dialect or os.environ.get("KAFKA_RELEASE")
    spoken = DIALECTS.get(dialect or "", NEWEST_DIALECT)
    deep_iteration = options.pop("deep_iteration", False)
    view = {name: options.pop(name) for name in ViewOptions.__slots__ if name in options}
    text = TextOptions(**options)
    view.setdefault("with_records", deep_iteration or (text.print_data_log and spoken.print_shows_records))
    view.setdefault("unpacks_nested", spoken.unpacks_nested)
    return DumpOptions(
        text_output(text, spoken), ViewOptions(**view), read_committed, secret, decoding or DecoderChoice()
    )


def by_path(options: DumpOptions, path: DecodePath) -> DumpOptions:
    """The same options for one of the decoders."""
    return replace(options, view=replace(options.view, path=path))
