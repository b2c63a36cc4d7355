"""The page of a tree of ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kdump.zookeeper.datafiles import DataSet
from kdump.zookeeper.kafkanodes import kafka_rows
from kdump.zookeeper.restore import RestoredTree
from kdump.zookeeper.state import ServerTree
from kdump.zookeeper.tree import ServerRelease, ZNode, ZNodeTree


class Row(dict[str, Any]):
    """A row that counts those that are held at the same time."""

    held = most = 0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        Row.held += 1
        Row.most = max(Row.most, Row.held)

    def __del__(self) -> None:
        Row.held -= 1


def test_a_page_holds_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """3 MiB of topics with 100,000 partitions each took 403 MiB."""
    made = kafka_rows

    def counted(*args: Any, **options: Any) -> Iterator[Row]:
        return map(Row, made(*args, **options))

    monkeypatch.setattr("kdump.zookeeper.state.kafka_rows", counted)
    tree = ZNodeTree.initial(ServerRelease.V36)
    partitions = ",".join(f'"{number}":[1]' for number in range(3000))
    for path, data in {
        "/brokers": "",
        "/brokers/ids": "",
        "/brokers/ids/1": '{"host":"h","port":9092}',
        "/brokers/topics": "",
        "/brokers/topics/t": f'{{"partitions":{{{partitions}}}}}',
    }.items():
        assert tree.put(path, ZNode(data.encode(), None))
    files = DataSet("version-2", (), ())
    page = "".join(ServerTree(RestoredTree(tree), files).page(show_secrets=False, reaches=None, width=120, color=False))
    titles = [line for line in page.splitlines() if line in ("brokers", "topics", "partitions", "configs", "nodes")]
    assert titles == ["brokers", "topics", "partitions", "nodes"]
    assert " 9092 " in page
    assert sum(line.startswith("│t ") for line in page.splitlines()) == 3001
    assert 0 < Row.most < 10
