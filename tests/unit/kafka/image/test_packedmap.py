"""Maps whose entries are held as bytes do what a dict does."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.kafka.image import packedmap
from kdump.kafka.image.packedmap import IdsByName, NamesById, TextMap, text_bytes, text_of

LONG = "l" * 300
KEYS = ("", "a", "b", "aa", "\0", "é", "\ud800", LONG, *map(str, range(20)))


class Lists(TextMap[list[str]]):
    """Lists of one item are packed."""

    def _pack(self, value: list[str]) -> bytes | None:
        return text_bytes(value[0]) if len(value) == 1 else None

    def _unpack(self, key: str, data: bytes) -> list[str]:
        return [text_of(data)]


values = st.lists(st.sampled_from(KEYS), max_size=2)
changes = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | values), max_size=200)


@pytest.fixture(autouse=True)
def _packs_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packedmap, "FEW", 0)


@given(changes, st.sampled_from([0, 3]))
def test_it_does_what_a_dict_does(made: list[tuple[str, list[str] | None]], few: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packedmap, "FEW", few)
        check_changes(made, few)


def check_changes(made: list[tuple[str, list[str] | None]], few: int) -> None:
    packed, plain = Lists(), dict[str, list[str]]()
    for key, value in made:
        assert (key in packed) == (key in plain)
        if value is not None:
            packed[key] = plain[key] = value
        elif key in plain:
            assert packed.pop(key) == plain.pop(key)
        else:
            with pytest.raises(KeyError):
                del packed[key]
            with pytest.raises(KeyError):
                packed[key]
        assert packed.find(key) == packed.get(key) == plain.get(key)
        assert len(packed) == len(plain)
    assert list(packed.items()) == list(plain.items())
    assert list(packed.keys_at(reversed(range(len(plain))))) == list(reversed(plain))
    if not few:
        assert packed.objects == {key: value for key, value in plain.items() if len(value) != 1}


def test_a_map_of_few_entries_packs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packedmap, "FEW", 2)
    packed = Lists()
    for key in ("a", "b", "c"):
        packed[key] = [key]
    assert packed.objects == {"a": ["a"], "b": ["b"]}
    assert list(packed.items()) == [(key, [key]) for key in ("a", "b", "c")]


def test_an_object_is_the_one_that_was_put() -> None:
    packed = Lists()
    packed["a"] = value = ["x", "y"]
    value.append("z")
    assert packed["a"] is value
    packed["a"] = ["x"]
    assert packed["a"] is not packed["a"]


def test_what_is_gone_takes_no_memory() -> None:
    packed = Lists()
    tracemalloc.start()
    for number in range(20_000):
        packed[f"key-{number}"] = [LONG]
        if number >= 10:
            del packed[f"key-{number - 10}"]
        packed["same"] = [f"{LONG}{number}"]
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert sorted(packed) == [*(f"key-{number}" for number in range(19_990, 20_000)), "same"]
    assert held < 50_000


def test_an_entry_takes_little_more_than_its_bytes() -> None:
    count, packed = 20_000, Lists()
    texts = [f"{number:08d}" for number in range(count)]
    tracemalloc.start()
    for text in texts:
        packed[text] = [text]
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held / count < 45


@pytest.mark.parametrize(
    "topic_id", ["", "A" * 22, "_-" * 10 + "-w", "+" + "A" * 21, "A" * 21 + "B", "A" * 23, "1", "é" * 22, "=" * 8]
)
def test_texts_that_are_no_ids_are_keys_too(topic_id: str) -> None:
    by_id, by_name = NamesById(), IdsByName()
    by_id["A" * 21 + "Q"] = "other"
    by_id[topic_id] = "t"
    by_name["t"] = topic_id
    assert list(by_id.items()) == [("A" * 21 + "Q", "other"), (topic_id, "t")]
    assert by_name["t"] == topic_id


def test_data_may_be_larger_than_four_bytes_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packedmap, "_MOST_SHORT", 50)
    packed = Lists()
    for number in range(20):
        packed[str(number)] = [str(number)]
        if number % 3 == 0:
            del packed[str(number)]
    assert list(packed.items()) == [(str(number), [str(number)]) for number in range(20) if number % 3]
    assert packed._starts.typecode == "Q"
