"""The Kafka jars and the compiled Java helpers of the oracle.

``KAFKA_JARS`` names a directory that holds ``k39/lib``, ``k44/lib`` and so on; without it the jars are fetched through
Maven into ``build/kafka`` once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from kdump.releases import NEWEST, RELEASES

_HERE = Path(__file__).parent
_BUILD = _HERE.parents[1] / "build"
_SILENT = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"

MODELLED = RELEASES[os.environ.get("KAFKA_RELEASE", NEWEST.name)]
"""The release that the tests compare kdump with: ``KAFKA_RELEASE=4.3``; without it the newest."""
DUMP_RELEASE = f"k{MODELLED.name.replace('.', '')}"
"""Its jars."""
WRITER_RELEASE = "k39"
"""Kafka 3.9.1: the last line whose client library writes magic 0 and 1."""
OLDER_RELEASES = {
    "0.8.2": "k08",
    "0.10.2": "k010",
    "1.0": "k10",
    "1.1": "k011",
    "2.8": "k28",
    "3.9": "k39",
    "4.1": "k41",
    "4.3": "k43",
}
"""The jars of the dialects' versions: 0.8.2.2, 0.10.2.2, 1.0.0, 1.1.1, 2.8.2, 3.9.1, 4.1.1 and 4.3.1."""

TIERED_RELEASE = "k43"
"""Kafka 4.3.1, whose LocalTieredStorage ``held_storage`` has."""


class ToolchainMissingError(Exception):
    """Java, Maven or the jars are not there; the message says which."""


def jars(release: str) -> Path:
    """The directory of jars of ``k39``, ``k43`` and so on, fetched if need be. Raises ToolchainMissingError."""
    given = os.environ.get("KAFKA_JARS")
    directory = (Path(given) if given else _BUILD / "kafka") / release / "lib"
    if directory.is_dir() and any(directory.glob("kafka*.jar")):
        return directory
    if given:
        raise ToolchainMissingError(f"KAFKA_JARS is set, but {directory} holds no Kafka jars")
    maven = _program("mvn")
    project = _HERE / "poms" / release / "pom.xml"
    unfinished = directory.with_name("lib.part")
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={unfinished}"]
    done = subprocess.run([maven, "-q", "-B", "-f", str(project), *goal], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolchainMissingError(f"Maven cannot fetch the jars: {done.stdout.strip()[-500:]}")
    unfinished.rename(directory)
    return directory


def java_command(release: str, main_class: str, *, options: tuple[str, ...] = ()) -> list[str]:
    """The command line that runs a class of Kafka, or one of ``java/*.java`` compiled against it.

    Raises:
        ToolchainMissingError: Java, Maven or the jars are not there.
    """
    library = jars(release)
    source = _HERE / "java" / f"{main_class.rpartition('.')[2]}.java"
    path = f"{library}/*"
    if source.is_file():
        path = f"{_compiled(release, source, path)}{os.pathsep}{path}"
    return [_program("java"), "-Dfile.encoding=UTF-8", _SILENT, *options, "-cp", path, main_class]


def held_storage() -> str:
    """The class path of HeldStorage, for a broker of ``TIERED_RELEASE``. Raises ToolchainMissingError."""
    library, storage = jars(TIERED_RELEASE), jars("tier43")
    path = f"{library}/*{os.pathsep}{storage}/*"
    classes = _compiled("tier43", _HERE / "java" / "HeldStorage.java", path)
    return f"{classes}/{os.pathsep}{storage}/*"


def _compiled(release: str, source: Path, path: str) -> Path:
    """The directory of the classes of a source, which is compiled with a class path if need be."""
    classes = _BUILD / "oracle" / "classes" / f"{release}-{source.stem}"
    stamp = classes / "stamp"
    if not stamp.exists() or stamp.stat().st_mtime < source.stat().st_mtime:
        classes.mkdir(parents=True, exist_ok=True)
        command = [_program("javac"), "-nowarn", "-encoding", "UTF-8", "-cp", path, "-d", str(classes)]
        subprocess.run([*command, str(source)], check=True)
        stamp.touch()
    return classes


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ToolchainMissingError(f"{name} is not on the PATH")
    return found
