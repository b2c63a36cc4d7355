"""Which file a name of ``--files`` stands for (docs/spec/dump-output.md#3-per-file-dispatch)."""

from __future__ import annotations

from pathlib import PurePosixPath

from kdump.dump.run import Target
from kdump.log.names import Kind
from kdump.payloads.java import normalize_path, parse_long


def target_by_java_name(name: str) -> Target | None:
    """The file a name of ``--files`` stands for; None where the Java tool says ``Ignoring unknown file``.

    It is always one of this machine: to the Java tool ``s3://b/0.log`` is a file in the directory ``s3:``.
    """
    path = normalize_path(name)
    file_name = PurePosixPath(path).name
    dot = file_name.rfind(".")
    try:
        kind = Kind(file_name[dot:] if dot >= 0 else "")
    except ValueError:
        return None
    return Target(path, kind, parse_long(file_name.partition(".")[0]), may_be_missing=kind is Kind.TXN_INDEX)
