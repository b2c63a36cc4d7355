"""Objects of stores that lie about them."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import pytest

from kdump.codes import Codes, KdumpError
from kdump.log.objects import ObjectSource

DATA = bytes(range(256)) * 1024


class LyingStore:
    """An origin of ``ObjectSource``: ``size`` is claimed; of one request at most ``most`` bytes come."""

    path = "s3://b/log"

    def __init__(self, size: int = len(DATA), *, most: int = 1 << 30, versions: tuple[str, ...] = ("a",)) -> None:
        self.claimed = size
        self.most = most
        self.versions = list(versions)
        self.requests = 0

    def open(self) -> LyingFile:
        return LyingFile(self, self.versions.pop(0) if len(self.versions) > 1 else self.versions[0])

    def size(self) -> int:
        return self.claimed

    def failure(self, error: Exception, position: int) -> KdumpError | None:
        raise error


class LyingFile:
    """It says that all bytes came, as files of pyarrow do."""

    def __init__(self, store: LyingStore, version: str) -> None:
        self._store = store
        self._version = version
        self._position = 0

    def size(self) -> int:
        return self._store.claimed

    def metadata(self) -> dict[str, bytes]:
        return {"ETag": self._version.encode()}

    def seek(self, position: int) -> None:
        self._position = position

    def readinto(self, view: memoryview) -> int:
        self._store.requests += 1
        part = DATA[self._position : self._position + min(len(view), self._store.most)]
        view[: len(part)] = part
        return len(view)

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass


def read_all(store: LyingStore, size: int = len(DATA)) -> bytes:
    source = ObjectSource("s3://b/log", store)
    found = b"".join(source.read(at, 1 << 16) for at in range(0, size, 1 << 16))
    source.close()
    return found


def test_an_honest_store() -> None:
    assert read_all(LyingStore()) == DATA


def test_a_store_that_claims_more_than_it_gives() -> None:
    store = LyingStore(1 << 50)
    with pytest.raises(KdumpError, match="object has 1,125,899,906,842,624 bytes, and gives none") as error:
        read_all(store, 1 << 50)
    assert (error.value.code, error.value.position) == (Codes.UNREADABLE, len(DATA))
    assert store.requests < 40


@pytest.mark.parametrize("most", [1, 15, 16, 17, 1000, 40_000])
def test_a_store_that_gives_less_than_was_asked_for(most: int) -> None:
    source = ObjectSource("s3://b/log", LyingStore(most=most))
    assert source.read(0, 2 * most) == DATA[: 2 * most]
    source.close()


def test_an_object_that_is_replaced_meanwhile() -> None:
    assert read_all(LyingStore(versions=("a", "a", "a", "a"))) == DATA
    with pytest.raises(KdumpError, match="replaced while it was read") as error:
        read_all(LyingStore(versions=("a",) * 1 + ("b",)))
    assert error.value.code is Codes.OBJECT_CHANGED
