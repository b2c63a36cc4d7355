"""From end to end: a broker takes restored directories for its own, serves what the source had, and goes on writing."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kdump.convert.conversion import Conversion
from kdump.inputs import resolve
from kdump.restore.plan import RestoreOptions, plan_restore
from kdump.restore.run import Restore
from kdump.restore.source import read_source
from kdump.restore.target import TargetCluster, TargetPartition
from tests.harness.batches import NOW, v2_batch
from tests.harness.captures import FIXTURES, LARGE, partition_names, unpack
from tests.harness.cli_runs import kdump
from tests.harness.fast_reference import Row
from tests.oracle.kraft import Cluster, Node
from tests.oracle.toolchain import ToolchainMissingError

pytestmark = pytest.mark.oracle

ISOLATIONS = ("read_uncommitted", "read_committed")
MARKER = ".kafka_cleanshutdown"
NEW = 3
TOPICS = "org.apache.kafka.tools.TopicCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TRANSACTIONS = "segments/v2-txn-0"
WAIT_SECONDS = 120
ENOUGH = 1_500_000
"""Bytes of a log that is being written, before its broker is killed: more than a segment."""
Record = tuple[int, int, int]
"""Offset, timestamp, CRC-32 of key, value and headers."""


@dataclass(frozen=True, slots=True)
class Served:
    """By topic: the records and where a consumer ends."""

    records: Mapping[str, Sequence[Record]]
    ends: Mapping[str, int]


def cluster_in(root: Path, *, brokers: int = 1) -> Cluster:
    try:
        return Cluster(root, brokers=brokers)
    except ToolchainMissingError as error:
        pytest.skip(str(error))


def topics_client(cluster: Cluster, *words: str) -> list[str]:
    return cluster.client(*words, program="TopicsClient")


def serve(cluster: Cluster, isolation: str, topics: Iterable[str]) -> Served:
    records: dict[str, list[Record]] = {}
    ends = {}
    for line in topics_client(cluster, "consume", isolation, *topics):
        topic, *numbers = line.split()
        if numbers[0] == "end":
            ends[topic] = int(numbers[1])
        else:
            offset, timestamp, crc = map(int, numbers)
            records.setdefault(topic, []).append((offset, timestamp, crc))
    return Served(records, ends)


def plain(value: object) -> bytes | None:
    if value is None:
        return None
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()


def records_of(source: Path, isolation: str) -> Iterator[Record]:
    """What a consumer gets of a directory, by ``kdump dump``."""
    done = kdump("dump", "--print-data-log", "--output", "jsonl", "--isolation", isolation, ".", cwd=source)
    for line in filter(None, done.stdout.decode().split("\n")):
        row = json.loads(line)
        if row["type"] != "record" or row["isControl"]:
            continue
        headers = [(plain(name) or b"", plain(value)) for name, value in row["headers"]]
        crc = sum_of(plain(row["key"]), plain(row["value"]), headers)
        yield row["offset"], -1 if row["timestamp"] is None else row["timestamp"], crc


def kinds() -> list[str]:
    """All captures that consumers can read."""
    names = [name for name in partition_names() if not name.startswith("damaged/") and name not in LARGE]
    return [name for name in names if "_bootstrap" not in name and "__cluster_metadata" not in name]


def topic_of(name: str) -> str:
    return name.replace("/", "-").rpartition("-")[0].replace("__", "") + name.rpartition("-")[2]


def test_records_through_a_console_producer(tmp_path: Path) -> None:
    """The recipe of kdump-restore(1): keys, values, headers and nulls arrive, timestamps as headers."""
    cluster = cluster_in(tmp_path)
    source = tmp_path / "orders-0"
    source.mkdir()
    given = [
        Row(0, 0, b"key", b"value", [(b"h", b"1"), (b"i", None)]),
        Row(7, 1, None, "żółć, =; %".encode(), []),
        Row(9, 2, b"", None, [(b"h", b"")]),
        Row(11, 3, b"\\n", b"\\N?", [(b"h", b"a b")]),
    ]
    (source / f"{0:020}.log").write_bytes(v2_batch(given, base_timestamp=NOW))
    words = ("--print-data-log", "--isolation", "read_committed", "--no-control", "--null", r"\N")
    lines = kdump("dump", *words, "--format", r"timestamp=%T,%h\t%k\t%v\n", ".", cwd=source).stdout
    with cluster.broker():
        topics_client(cluster, "create", "-", "orders")
        settings = ("parse.headers=true", "parse.key=true", "headers.key.separator==", r"null.marker=\N")
        options = [word for setting in settings for word in ("--reader-property", setting)]
        cluster.tool("org.apache.kafka.tools.ConsoleProducer", ["--topic", "orders", *options], lines)
        served = serve(cluster, "read_uncommitted", ["orders"]).records["orders"]
    expected = []
    for row in given:
        headers = [(b"timestamp", str(NOW + row.timestamp_delta).encode()), *row.headers]
        expected.append((row.offset_delta, sum_of(row.key, row.value, headers)))
    assert [(offset, crc) for offset, _, crc in served] == expected


def test_records_through_kcat(tmp_path: Path) -> None:
    """The recipe of kdump-restore(1): all bytes but the delimiters; no headers, and what is empty becomes null."""
    program = shutil.which("kcat")
    if program is None:
        pytest.skip("kcat is not on the PATH")
    cluster = cluster_in(tmp_path)
    source = tmp_path / "orders-0"
    source.mkdir()
    pairs: list[tuple[bytes | None, bytes | None]] = [
        (b"key", b"value"), (None, b"a\tb\r\n\xff\0"), (b"\n", None), (b"k", b""), (None, None), (b"", "żółć".encode()),
    ]  # fmt: skip
    rows = [Row(number, number, key, value, []) for number, (key, value) in enumerate(pairs)]
    (source / f"{0:020}.log").write_bytes(v2_batch(rows, base_timestamp=NOW))
    words = ("--print-data-log", "--isolation", "read_committed", "--no-control")
    data = kdump("dump", *words, "--format", r"%k\x1f%v\x1e", ".", cwd=source).stdout
    with cluster.broker():
        topics_client(cluster, "create", "-", "orders")
        command = [program, "-P", "-b", cluster.server, "-t", "orders", "-K", r"\x1f", "-D", r"\x1e", "-Z"]
        subprocess.run(command, input=data, check=True, capture_output=True, timeout=WAIT_SECONDS)
        served = serve(cluster, "read_uncommitted", ["orders"]).records["orders"]
    assert [crc for _, _, crc in served] == [sum_of(key or None, value or None, []) for key, value in pairs]


def sum_of(key: bytes | None, value: bytes | None, headers: Iterable[tuple[bytes, bytes | None]]) -> int:
    """The sum that TopicsClient prints."""
    crc = 0
    for data in (key, value, *(one for header in headers for one in header)):
        crc = zlib.crc32((-1 if data is None else len(data)).to_bytes(4, "big", signed=True) + (data or b""), crc)
    return crc


def restore(cluster: Cluster, sources: Mapping[str, Path], options: RestoreOptions) -> None:
    """Restore a partition of each topic; the model of a start says that it starts and keeps everything."""
    target = TargetCluster(str(cluster.logs / "__cluster_metadata-0"), str(cluster.logs))
    with Restore(str(cluster.logs), options) as job:
        for topic, source in sources.items():
            known = target.partition(topic, 0)
            assert isinstance(known, TargetPartition), known
            plan = plan_restore(read_source(resolve(str(source))), known, options)
            job.check(plan)
            restored = job.restore(plan)
            assert restored.start is not None
            assert restored.start.is_harmless


def test_every_kind_of_capture(tmp_path: Path) -> None:
    """Topics are created empty, their directories are restored, and the broker takes them as they are.

    Logs of magic 0 and 1 too, as they are and converted.
    """
    captures = unpack(tmp_path / "captures")
    cluster = cluster_in(tmp_path)
    sources = {topic_of(name): captures.root / name for name in kinds()}
    old = {topic: source for topic, source in sources.items() if topic.startswith("0.") or "v12" in topic}
    converted = {f"{topic}-v2": source for topic, source in old.items()}
    with cluster.broker():
        topics_client(cluster, "create", "-", *sources, *converted)
    marker = (cluster.logs / MARKER).read_bytes()
    restore(cluster, sources, RestoreOptions(forgets_producers=True))
    to_v2 = RestoreOptions(Conversion(to_magic=2), is_converted=True, forgets_producers=True)
    restore(cluster, converted, to_v2)
    sources |= converted
    assert (cluster.logs / MARKER).read_bytes() == marker
    with cluster.broker():
        for isolation in ISOLATIONS:
            served = serve(cluster, isolation, sources)
            for topic, source in sources.items():
                assert served.records.get(topic, []) == list(records_of(source, isolation)), (topic, isolation)
        ends = serve(cluster, "read_uncommitted", sources).ends
        written = topics_client(cluster, "produce", str(NEW), *sources)
        assert written == [f"{topic} {ends[topic] + number}" for topic in sources for number in range(NEW)]
        said = cluster.said
    assert not [line for line in said if any(topic in line for topic in sources)]
    print(f"{len(sources)} partitions, {sum(map(len, served.records.values()))} records")


def size_of(partition: Path) -> int:
    return sum(path.stat().st_size for path in partition.glob("*.log"))


def test_a_log_directory_of_a_killed_broker(tmp_path: Path) -> None:
    """Records that were deleted by retention, compacted logs, transactions in the midst: a new cluster takes all."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old, new = cluster_in(tmp_path / "old"), cluster_in(tmp_path / "new")
    topics = ("comp", "plain", "tx", "zs")
    with old.broker(is_killed=True), old.load(600):
        while min(size_of(old.logs / f"{topic}-0") for topic in topics) < ENOUGH:
            time.sleep(0.2)
    with new.broker():
        topics_client(new, "create", "-", *topics)
    words = ("--from-log-dir", str(old.logs), "--metadata", str(new.logs), "--link", "hard")
    done = kdump("restore", *words, "-o", str(new.logs), "--forget-producers", "--output", "jsonl", cwd=tmp_path)
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert {row["topic"] for row in rows if row["type"] == "restored"} == set(topics), done.stderr
    # The end of a log may be torn.
    losses = {row["kind"] for row in rows if row.get("isLoss")}
    assert losses <= {"damage", "no-target"}
    with new.broker():
        for isolation in ISOLATIONS:
            served = serve(new, isolation, topics)
            for topic in topics:
                source = list(records_of(old.logs / f"{topic}-0", isolation))
                assert source
                assert served.records.get(topic, []) == source, (topic, isolation)
            print({topic: len(found) for topic, found in served.records.items()}, isolation)
        ends = serve(new, "read_uncommitted", topics).ends
        written = topics_client(new, "produce", str(NEW), *topics)
        assert written == [f"{topic} {ends[topic] + number}" for topic in topics for number in range(NEW)]
        said = new.said
    assert not [line for line in said if any(f"{topic}-0" in line for topic in topics)]


def several_epochs(home: Path) -> Path:
    """A log whose leader changed: three segments of leader epochs 0, 3 and 9."""
    source = home / "epochs-0"
    source.mkdir(parents=True)
    for number, epoch in enumerate((0, 3, 9)):
        base = 10 * number
        rows = [Row(at, at, b"key", b"%d" % (base + at), []) for at in range(10)]
        batch = v2_batch(rows, base_offset=base, base_timestamp=NOW, partition_leader_epoch=epoch)
        (source / f"{base:020}.log").write_bytes(batch)
    return source


def log_of(node: Node, topic: str) -> bytes:
    """The batches of a partition; each replica rolls its own segments."""
    return b"".join(path.read_bytes() for path in sorted((node.logs / f"{topic}-0").glob("*.log")))


def wait_until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.5)


def test_several_replicas(tmp_path: Path) -> None:
    """All replicas restored before any broker starts, or one that is extended later: both ways keep everything.

    Restored on one replica beside an empty one that leads, it is lost: that is why nothing else is called safe.
    """
    cluster = cluster_in(tmp_path, brokers=3)
    one, two, three = cluster.nodes
    sources = {
        "all": several_epochs(tmp_path),
        "half": several_epochs(tmp_path / "half"),
        "one": FIXTURES / TRANSACTIONS,
    }
    replicas = {"all": "1:2:3", "half": "2:3", "one": "2"}
    with cluster.brokers():
        for topic, assignment in replicas.items():
            cluster.tool(TOPICS, ["--create", "--topic", topic, "--replica-assignment", assignment])
    # The third broker stopped first: the second one is the last in-sync replica of "half".
    for topic, nodes in (("all", cluster.nodes), ("one", [two]), ("half", [three])):
        for node in nodes:
            words = ("--topic", topic, "--metadata", str(one.logs), "--forget-producers")
            done = kdump("restore", str(sources[topic]), "-o", str(node.logs), *words, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
    restored = {topic: log_of(two, topic) for topic in ("all", "one")}
    assert log_of(one, "all") == log_of(three, "all") == restored["all"]
    with cluster.brokers():
        for isolation in ISOLATIONS:
            served = serve(cluster, isolation, ["all", "one"])
            for topic in ("all", "one"):
                assert served.records[topic] == list(records_of(sources[topic], isolation))
        wait_until(lambda: cluster.tool(TOPICS, ["--describe", "--under-replicated-partitions"]).strip() == "")
        assert [log_of(node, "all") for node in cluster.nodes] == [restored["all"]] * 3
        assert serve(cluster, "read_uncommitted", ["half"]).ends == {"half": 0}
        assert log_of(three, "half") == b""
        said = [line for node in cluster.nodes for line in node.said]
        assert not [line for line in said if "all-0" in line or "one-0" in line]
        extend(cluster, tmp_path, "one", [2, 3])
        assert log_of(three, "one") == log_of(two, "one") == restored["one"]
        ends = serve(cluster, "read_uncommitted", ["all", "one"]).ends
        written = topics_client(cluster, "produce", str(NEW), "all", "one")
        assert written == [f"{topic} {ends[topic] + number}" for topic in ("all", "one") for number in range(NEW)]
        wait_until(lambda: log_of(one, "all") == log_of(two, "all") == log_of(three, "all"))
        wait_until(lambda: log_of(two, "one") == log_of(three, "one"))


def extend(cluster: Cluster, home: Path, topic: str, brokers: Sequence[int]) -> None:
    """Give a topic more replicas, as kafka-reassign-partitions.sh does, and wait until they are there."""
    wanted = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": list(brokers)}]}
    (home / "wanted.json").write_text(json.dumps(wanted))
    words = ["--reassignment-json-file", str(home / "wanted.json")]
    cluster.tool(REASSIGN, [*words, "--execute"])
    wait_until(lambda: "is completed" in cluster.tool(REASSIGN, [*words, "--verify", "--preserve-throttles"]))
