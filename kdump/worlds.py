"""The worlds at the edge: files that are none of today's Kafka, each kind with a package of its own.

No other module of the core names a world, but ``log.tiers`` and ``cli.state`` ask for remote storage. A world answers
the same questions as the core, each in a module of its package that has the name of the question:

- ``names``: which PATHs are its own; ``mount``: what they are in its store
- ``extract``, ``staging``: what lies in its store as files of this machine
- ``dump``, ``state``: what the commands of these names show of such a PATH, see ``WorldDump`` and ``WorldStates``
- ``rows``: the entries of a log and their tables, see ``WorldRows``
- ``text``: what its own tool prints, see ``WorldText``
- ``verify``: what is wrong with its logs or its own PATHs, see ``WorldChecks`` and ``WorldPathChecks``
- ``start``: what a start of its broker would do, see ``WorldStarts``
- ``count``: what ``stats`` counts in its logs, see ``WorldFigures``
- ``explain``: the bytes around a position, see ``WorldExplanation``
- ``times``: what its broker deletes by age, and the offset that it answers for a time, see ``WorldTimes``
- ``repair``: see ``WorldRepair``
- ``convert``: its logs as logs of today, see ``WorldConversion``
- ``topic``: what is wrong with a topic in which its software keeps what it knows, see ``WorldTopicChecks``

Where the package has no such module, the world has no answer, and the command says so with the world's title.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, NamedTuple


class World(NamedTuple):
    """A world.

    Attributes:
        package: its package in ``kdump``.
        title: what people call it.
        log_suffix: with which the names of its logs end, which lie in partition directories; '': it has no logs.
        log_format: the choice of ``--log-format`` by which files of any name are its logs.
        has_paths: it has files and directories of its own, which its module ``names`` recognises.
        scheme: how the URIs of its stores begin (``log.stores.Store``), which its module ``mount`` makes; '': none.
        topic_mark: what the names of topics contain in which its software keeps what it knows; '': none does.
    """

    package: str
    title: str
    log_suffix: str = ""
    log_format: str = ""
    has_paths: bool = False
    scheme: str = ""
    topic_mark: str = ""

    def answer(self, question: str) -> Any:
        """The module that answers a question. The caller says what it expects of it, by a Protocol."""
        return import_module(f"kdump.{self.package}.{question}")


REMOTE_STORAGE: Final = World("tiered", "remote storage", scheme="tier")
WORLDS: Final = (
    World("kafka07", "Kafka 0.7", log_suffix=".kafka", log_format="0.7"),
    World("zookeeper", "ZooKeeper", has_paths=True),
    REMOTE_STORAGE,
    World("schemas", "a schema registry", topic_mark="schema"),
)


def world_of_log(path: str) -> World | None:
    """The world whose log a file is by its name; None: it is none, or a log of today."""
    return next((world for world in WORLDS if world.log_suffix and path.endswith(world.log_suffix)), None)


def world_of_path(path: str) -> World | None:
    """The world whose file or directory a PATH is; None: none. The path is as ``files.strip_credentials`` gave it."""
    return next((world for world in WORLDS if world.has_paths and world.answer("names").is_own(path)), None)


def world_of_store(path: str) -> World | None:
    """The world in whose store a path lies by its scheme (``tier://``, ``tier+s3://``); None: none."""
    scheme = path.partition("://")[0].partition("+")[0] if "://" in path else ""
    return next((world for world in WORLDS if world.scheme and world.scheme == scheme), None)


def world_of_topic(topic: str) -> World | None:
    """The world whose software may keep what it knows in a topic of this name; None: none does."""
    return next((world for world in WORLDS if world.topic_mark and world.topic_mark in topic), None)


def log_formats() -> list[str]:
    """The choices of ``--log-format``."""
    return [world.log_format for world in WORLDS if world.log_format]


def log_titles() -> str:
    """The worlds that have logs, for people."""
    return " or ".join(world.title for world in WORLDS if world.log_suffix)


def path_titles() -> str:
    """The worlds that have PATHs of their own, for people."""
    return " or ".join(world.title for world in WORLDS if world.has_paths)


def world_of_format(log_format: str | None) -> World | None:
    """The world that ``--log-format`` names; None: none."""
    return next((world for world in WORLDS if log_format and world.log_format == log_format), None)
