"""A recovery of a segment with either decoder, however many batches there are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kdump.kafka import recover
from kdump.reading.view import DecodePath


@contextmanager
def recovering(path: DecodePath) -> Iterator[None]:
    """Batches are read one by one, or as columns."""
    with pytest.MonkeyPatch.context() as patch:
        if path is not DecodePath.AUTO:
            patch.setattr(recover, "RECOVERED_BATCHES", 0 if path is DecodePath.COLUMNAR else sys.maxsize)
            patch.setattr(recover, "BATCHES_IN_CHUNK", 0)
        yield
