"""A file that is read as it grows."""

from __future__ import annotations

from pathlib import Path

from kdump.log.growing import GrowingFile


def test_the_directory_is_listed_only_at_the_end_of_what_is_there(tmp_path: Path) -> None:
    """Whether a later segment is there costs a listing, and the directory may have very many names."""
    log, asked = tmp_path / "0.log", []

    def is_over() -> bool:
        if not asked:
            # Written before the next segment is seen: it is still read.
            with log.open("ab") as file:
                file.write(b"end")
        asked.append(True)
        return True

    log.write_bytes(bytes(range(200)))
    waits: list[None] = []
    view = memoryview(bytearray(10))
    with GrowingFile(str(log), is_over, lambda: waits.append(None)) as source:
        read = b""
        while count := source.read_some(view, len(read)):
            if len(read) < 200:
                assert not asked
            read += view[:count]
    assert read == bytes(range(200)) + b"end"
    assert (len(asked), waits) == (2, [])
