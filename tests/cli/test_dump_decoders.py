"""Decoders at the command line: the Java tool's flags, kdump's own options, groups and transactional ids."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kdump.kafka.coordinators import group, transactional_id
from kdump.payloads.java import string_hash
from kdump.payloads.topics import INTERNAL_TOPICS
from kdump.rows.tables import RECORD
from tests.harness.cli_runs import CLEAN, DAMAGE, USAGE, dump, on_a_terminal
from tests.harness.decoder_logs import commit, transaction, write_log
from tests.harness.fast_reference import Row

DECODED = '| key: {"type":"1","data":{"group":"g","topic":"t","partition":0}} payload: '


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory; its topic of offsets has 3 partitions, of which the last is elsewhere."""
    write_log(tmp_path, "__consumer_offsets-0", [commit("other"), commit("g\x00h")])
    write_log(tmp_path, "__consumer_offsets-1", [commit("g"), commit("gg"), commit("g", offset=None)], per_batch=1)
    write_log(tmp_path, "__transaction_state-0", [transaction("t1"), transaction("g")])
    write_log(tmp_path, "orders-0", [Row(0, 0, b"\0\1\0\1g", b"\xff"), Row(0, 0, b"k", None)])
    return tmp_path


def contents(*words: str, cwd: Path) -> list[str]:
    """The record lines without metadata."""
    _, out, _ = dump("--skip-record-metadata", *words, cwd=cwd)
    return [line for line in out if line.startswith("|")]


@pytest.mark.parametrize("word", ["--offsets-decoder", "-offsets-decoder", "--offsets-decoder=x"])
def test_the_flags_of_the_java_tool(logs: Path, word: str) -> None:
    lines = contents(word, "__consumer_offsets-1", cwd=logs)
    assert lines[0].startswith(DECODED)
    assert lines[2] == DECODED + "<DELETE>"


def test_of_several_flags_the_java_tools_order_decides(logs: Path) -> None:
    flags = [f"--{name}-decoder" for name in reversed(INTERNAL_TOPICS)]
    assert contents(*flags, "__consumer_offsets-1", cwd=logs)[2] == DECODED + "<DELETE>"
    without_offsets = contents(*flags[:-1], "__consumer_offsets-1", cwd=logs)
    assert without_offsets[0] == "| key: Unknown record type 1 at offset 0, skipping."


def test_a_flag_wins_over_a_decoder_class(logs: Path) -> None:
    words = ("--key-decoder-class=LongDecoder", "--value-decoder-class=IntegerDecoder", "--offsets-decoder")
    assert contents(*words, "__consumer_offsets-1", cwd=logs)[0].startswith(DECODED)


def test_what_does_not_decode_is_told_once_a_file(logs: Path) -> None:
    status, _, errors = dump("--transaction-log-decoder", "__consumer_offsets-1", "__transaction_state-0", cwd=logs)
    assert status == CLEAN
    path = "__consumer_offsets-1/00000000000000000000.log"
    assert errors == [f"kdump: {path}: offset 0: KD219 the key has the unknown record type 1 (and 2 more)"]


def test_decode_auto(logs: Path) -> None:
    _, out, errors = dump("--decode", "auto", "--skip-record-metadata", ".", cwd=logs)
    text = "\n".join(out)
    assert DECODED in text
    assert '| key: {"type":"0","data":{"transactionalId":"t1"}} payload: {"version":"0",' in text
    assert "| key: \0\1\0\1g payload: \ufffd" in text
    assert errors == []
    _, out, _ = dump("--decode", "auto", "--value-decoder", "hex", "--skip-record-metadata", ".", cwd=logs)
    assert "| key: \0\1\0\1g payload: ff" in out
    assert "\n".join(out).count(DECODED) == text.count(DECODED)


def test_checkpoints_are_cluster_metadata(tmp_path: Path) -> None:
    value = b"\x01\x02\x00\x03ab" + bytes(range(16)) + b"\x00"
    log = write_log(tmp_path, "any", [Row(0, 0, None, value)])
    log.rename(tmp_path / "any" / "00000000000000000005-0000000001.checkpoint")
    lines = contents("--decode", "auto", "any/00000000000000000005-0000000001.checkpoint", cwd=tmp_path)
    assert lines == [
        '| payload: {"type":"TOPIC_RECORD","version":0,"data":{"name":"ab","topicId":"AAECAwQFBgcICQoLDA0ODw"}}'
    ]


def test_rows_have_the_columns_only_with_a_decoder(logs: Path) -> None:
    def rows(*words: str) -> list[dict[str, object]]:
        _, out, _ = dump("--output", "jsonl", *words, cwd=logs)
        return [json.loads(line) for line in out]

    assert [list(row) for row in rows("--records", "orders-0")] == [list(RECORD.names)] * 2
    decoded = rows("--decode", "auto", "__consumer_offsets-1", "orders-0")
    at = RECORD.names.index("headers")
    assert list(decoded[0]) == [*RECORD.names[:at], "decodedKey", "decodedValue", *RECORD.names[at:]]
    assert decoded[0]["decodedKey"] == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 0}}
    assert [row["decodedValue"] is None for row in decoded] == [False, False, True, True, True]
    assert [row["decodedKey"] is None for row in decoded] == [False, False, False, True, True]
    plain = rows("--key-decoder", "text", "--value-decoder", "int32", "--fields", "decodedKey,decodedValue", "orders-0")
    assert plain[0] == {"decodedKey": "\0\1\0\1g", "decodedValue": None}
    assert plain[1]["code"] == "KD209"
    assert plain[2] == {"decodedKey": "k", "decodedValue": None}


def test_a_format_string_shows_what_is_decoded(logs: Path) -> None:
    words = ("--decode", "auto", "--format", r"%o %k %v\n", "-n", "1")
    _, out, _ = dump(*words, "__consumer_offsets-1", cwd=logs)
    assert out[0].startswith('0 {"type":"1","data":{"group":"g","topic":"t","partition":0}} {"version":"3","data":{')
    _, out, _ = dump("--key-decoder", "hex", "--format", r"%k %K\n", "-n", "1", "orders-0", cwd=logs)
    assert out == ["0001000167 5"]


@pytest.mark.slow
def test_a_table_shows_what_is_decoded(logs: Path) -> None:
    shown = on_a_terminal(
        "dump", "--decode", "auto", "--output", "table", "__consumer_offsets-1", cwd=logs, columns=160
    )
    assert b"decodedKey" in shown
    assert b"data=(group=g" in shown
    assert b"key" not in shown
    shown = on_a_terminal("dump", "--decode", "auto", "--output", "table", "orders-0", cwd=logs, columns=160)
    assert b"key" in shown
    assert b"decodedKey" not in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--key-decoder", "avro"], "no decoder 'avro' (known: text, hex, base64, json, int32,"),
        (["--decode", "maybe"], "'maybe' is not 'auto'"),
        (["--group", "g" * 32768], "a group has 32767 bytes at most"),
        (
            ["--offsets-decoder", "--key-decoder", "hex"],
            "--offsets-decoder goes neither with --decode nor",
        ),
        (
            ["--offsets-decoder", "--decode", "auto"],
            "--offsets-decoder goes neither with --decode nor",
        ),
        (["--key-decoder", "hex", "--key-decoder-class=LongDecoder"], "--key-decoder and --key-decoder-class exclude"),
        (["--decode", "auto", "--redact"], "--redact hides what a decoder would show"),
        (["--decode", "auto", "--output", "jsonl", "--batches"], "decoders show records"),
        (["--output", "jsonl", "--fields", "decodedKey"], "no column 'decodedKey'"),
        (["--group", "g", "--transactional-id", "t"], "--group and --transactional-id exclude each other"),
        (["--partitions", "5"], "--partitions goes with --group or --transactional-id"),
        (["--group", "g", "--partitions", "0"], "0 is not in the range"),
        (["--group", "g", "--output", "jsonl", "--batches"], "choose records"),
    ],
)
def test_usage_errors(logs: Path, words: list[str], message: str) -> None:
    status, out, errors = dump(*words, "orders-0", cwd=logs)
    assert (status, out) == (USAGE, [])
    assert message in " ".join(errors)


def test_a_group_of_a_log_directory(logs: Path) -> None:
    status, out, errors = dump("--group", "g", "--skip-record-metadata", ".", cwd=logs)
    assert status == CLEAN
    assert [line for line in out if line.startswith("Dumping")] == [
        "Dumping ./__consumer_offsets-1/00000000000000000000.log"
    ]
    assert [line.startswith(DECODED) for line in out if line.startswith("|")] == [True, True]
    why = "where its hash would put it if the topic has 2 partitions"
    assert errors == [f"kdump: group 'g' is in __consumer_offsets-1, {why}"]
    _, out, _ = dump("--transactional-id", "t1", "--output", "jsonl", ".", cwd=logs)
    assert [json.loads(line)["decodedKey"]["data"]["transactionalId"] for line in out] == ["t1"]


def test_a_group_in_a_file_that_says_no_partition(logs: Path) -> None:
    data = (logs / "__consumer_offsets-1" / "00000000000000000000.log").read_bytes()
    (logs / "00000000000000000000.log").write_bytes(data)
    for path in ("00000000000000000000.log", "-"):
        status, out, errors = dump("--group", "gg", "--skip-record-metadata", path, cwd=logs, stdin=data)
        assert status == CLEAN
        assert '{"group":"gg",' in out[-1]
        assert errors == [
            "kdump: group 'gg' belongs to __consumer_offsets-46 if the topic has 50 partitions "
            "(--partitions says how many)",
            f"kdump: group 'gg' is in {path}, whose directory is no partition of __consumer_offsets",
        ]


def test_a_group_that_is_nowhere(logs: Path) -> None:
    assert dump("--group", "nobody", ".", cwd=logs) == (
        CLEAN,
        [],
        [
            "kdump: group 'nobody' belongs to __consumer_offsets-45 if the topic has 50 partitions"
            " (--partitions says how many)",
            "kdump: group 'nobody': no records found",
        ],
    )
    words = ("--group", "g", "--partitions", "7")
    assert dump(*words, ".", cwd=logs) == (
        CLEAN,
        [],
        ["kdump: group 'g' belongs to __consumer_offsets-5 of 7 partitions", "kdump: group 'g': no records found"],
    )
    # What is named is read, wherever Kafka would look.
    _, out, errors = dump(*words, "__consumer_offsets-1", cwd=logs)
    assert len([line for line in out if line.startswith("| offset")]) == 2
    assert errors[1] == "kdump: group 'g' has records in __consumer_offsets-1"


def test_a_group_where_all_partitions_are_here(logs: Path) -> None:
    """Kafka's default of 50 is no guess where a broker has 0, 1 and 2: offsets.topic.num.partitions may differ."""
    (logs / "__consumer_offsets-2").mkdir()
    (logs / "__consumer_offsets-2" / "00000000000000000000.log").write_bytes(b"")
    home = group("nobody").partition(3)
    assert dump("--group", "nobody", ".", cwd=logs)[2] == [
        f"kdump: group 'nobody' belongs to __consumer_offsets-{home} if the topic has 3 partitions, as many as are here"
        " (--partitions says how many)",
        "kdump: group 'nobody': no records found",
    ]
    # Its records are told of wherever they are.
    assert dump("--group", "g", ".", cwd=logs)[2][0].startswith("kdump: group 'g' is in __consumer_offsets-1, where")


def test_how_many_partitions_are_likely() -> None:
    wanted = group("g")
    assert wanted.likely_partitions(wanted.partition(5), 5, 5) == 5
    assert wanted.likely_partitions(wanted.partition(50), 4, None) == 50


def test_the_rows_of_an_index_are_no_records_of_a_group(logs: Path) -> None:
    (logs / "__consumer_offsets-1" / "00000000000000000000.index").write_bytes(bytes([0, 0, 0, 2, 0, 0, 0, 9]))
    status, out, errors = dump("--group", "nobody", "--all-files", "--output", "csv", "__consumer_offsets-1", cwd=logs)
    assert status == CLEAN
    assert out[-1].endswith(",2,9")
    assert errors[-1] == "kdump: group 'nobody': no records found"


def test_a_groups_records_with_other_filters(logs: Path) -> None:
    words = ("--group", "g", "--output", "jsonl", "--fields", "offset")
    assert dump(*words, "--offset", "1:", ".", cwd=logs)[1] == ['{"offset":2}']
    assert dump(*words, "-n", "1", ".", cwd=logs)[1] == ['{"offset":0}']
    assert dump(*words, "--tail", "1", ".", cwd=logs)[1] == ['{"offset":2}']
    assert dump(*words, "--key", "zzz", ".", cwd=logs)[1] == []


@pytest.mark.parametrize(
    ("name", "code", "partition"),
    [
        ("", 0, 0),
        ("g", 103, 3),
        ("group-1", 293427299, 49),
        ("polygenelubricants", -(2**31), 0),
        ("caf\u00e9", 3045921, 21),
        ("\U0001f600", 1772899, 49),
        ("t43-two", 1408483186, 36),
        ("orders-consumer", -1204742690, 40),
    ],
)
def test_where_kafka_puts_a_name(name: str, code: int, partition: int) -> None:
    """Hash codes and partitions as Java computes them."""
    assert string_hash(name) == code
    assert group(name).partition(50) == transactional_id(name).partition(50) == partition


def test_a_likely_number_of_partitions() -> None:
    wanted = group("group-1")
    assert wanted.likely_partitions(49, 1) == 50
    for count in (1, 3, 7, 50, 64, 200):
        found = wanted.likely_partitions(wanted.partition(count), 1)
        assert found is not None
        assert wanted.partition(found) == wanted.partition(count)
        assert wanted.likely_partitions(wanted.partition(count), count) in range(count, 500)


def test_damage_and_decoders(logs: Path) -> None:
    """A wrong CRC is damage as ever, and what it holds is decoded as far as it goes."""
    path = logs / "__consumer_offsets-1" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    status, out, _ = dump("--offsets-decoder", str(path), cwd=logs)
    assert status == DAMAGE
    assert any(line.endswith("isvalid: false") for line in out)


def test_after_a_record_without_key(tmp_path: Path) -> None:
    """The Java tool stops there; with --resync the record is shown as it is, and what follows in its batch too."""
    rows = [commit("g"), Row(0, 0, None, b"raw"), commit("g"), commit("h")]
    write_log(tmp_path, "__consumer_offsets-0", rows, per_batch=len(rows))
    status, out, errors = dump("--offsets-decoder", "--skip-record-metadata", "__consumer_offsets-0", cwd=tmp_path)
    assert status == DAMAGE
    assert len(out) == 4
    assert "message had a missing key" in errors[0]
    for word in ("--offsets-decoder", "--decode=auto"):
        words = (word, "--resync", "--skip-record-metadata")
        status, out, errors = dump(*words, "__consumer_offsets-0", cwd=tmp_path)
        assert status == CLEAN
        assert out[4] == "| payload: raw"
        assert out[5].startswith(DECODED)
        assert '"group":"h"' in out[6]
        assert errors == [
            "kdump: __consumer_offsets-0/00000000000000000000.log: "
            "offset 1: KD209 the key is null, it says what the record is"
        ]
