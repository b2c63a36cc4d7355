"""What all rows of one file have in common."""

from __future__ import annotations

from dataclasses import dataclass

from kdump.log.named import STDIN
from kdump.log.names import partition_of_file


@dataclass(frozen=True, slots=True)
class FileContext:
    """The columns that are the same in all rows of a file."""

    file: str
    topic: str | None
    partition: int | None

    def columns(self) -> dict[str, str | int | None]:
        """Values by column name."""
        return {"file": self.file, "topic": self.topic, "partition": self.partition}

    @classmethod
    def of(cls, path: str) -> FileContext:
        """Topic and partition are those of the directory the file lies in, None when it is no ``<topic>-<n>``."""
        topic, partition = (None if path == STDIN else partition_of_file(path)) or (None, None)
        return cls(as_text(path), None if topic is None else as_text(topic), partition)


def as_text(name: str) -> str:
    """A file's name as UTF-8 text. Names of files need not be UTF-8, output is."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
