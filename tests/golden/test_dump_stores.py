"""The goldens of some captures once more, the files named by URIs: what comes out does not depend on where they lie."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kdump.log import files
from tests.golden.goldens import applies
from tests.harness import s3server
from tests.harness.captures import Captures
from tests.harness.examples import sparse
from tests.harness.inprocess import Door, Way, run_in_process
from tests.harness.outcome import differences

pytest.importorskip("pyarrow.fs", reason="paths with a scheme need pyarrow")

BY_PATH = Way(Door.PATH)
PARTITIONS = [
    "0.8.2.2/v0-multi-0",
    "0.8.2.2/v0-lz4-0",
    "0.10.2.2/v1-compact-0",
    "0.10.2.2/v1-snappy-0",
    "1.1.1/v2-gzip-0",
    "2.8.2/v2-txn-0",
    "2.8.2/__consumer_offsets-1",
    "3.9.1/v2-big-0",
    "3.9.1/v2-zstd-0",
    "4.3.1/v2-compact-del-0",
    "4.3.1/__cluster_metadata-0",
    "damaged/log-trunc-batch",
    "damaged/tidx-offset-beyond",
    "damaged/snap-trunc",
]


def differing(captures: Captures, partition: str, uri: str) -> list[str]:
    """As ``goldens.differing``; ``uri``: the partition's directory, entered."""
    directory = captures.root / partition
    found = []
    for golden in captures.goldens(partition):
        if not applies(golden, BY_PATH):
            continue
        run = run_in_process([f"{uri}/{name}" for name in golden.files], golden.flags.options, BY_PATH)
        run = replace(
            run,
            stdout=run.stdout.replace(f"{uri}/".encode(), b""),
            stderr=run.stderr.replace(uri.encode(), str(directory).encode()),
        )
        found += [f"{golden.name}: {what}" for what in differences(golden.outcome(), run, golden.flags, ordered=False)]
    return found


@pytest.mark.parametrize("partition", sparse(PARTITIONS, fast=4))
def test_through_pyarrows_local_files(captures: Captures, partition: str) -> None:
    assert captures.goldens(partition)
    assert differing(captures, partition, files.strip_credentials(f"file://{captures.root}/{partition}")) == []


@pytest.mark.parametrize("partition", PARTITIONS)
def test_through_s3(captures: Captures, partition: str, s3_server: s3server.S3Server) -> None:
    place = f"goldens/{Path(partition).name}"
    shutil.copytree(captures.root / partition, s3_server.root / place)
    keys = f"{s3server.ACCESS_KEY}:{s3server.SECRET_KEY}"
    assert differing(captures, partition, files.strip_credentials(s3_server.uri(place, keys=keys))) == []
