"""The Spark session that kdump makes when it is not given one."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from kdump.codes import Codes, KdumpError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Session: TypeAlias = "SparkSession"
"""For those that hand one on without importing pyspark."""

LOCAL: Final = "local[*]"
_OLDEST_JAVA: Final = 17
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")


def why_not() -> str | None:
    """What is missing for Spark, and how to get it; None where nothing is."""
    try:
        import pandas  # noqa: F401  (PySpark's mapInArrow asks for it)
        import pyarrow  # noqa: F401
        import pyspark
    except ImportError as error:
        return f"Spark needs {error.name}: pip install 'kdump[spark]'"
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < (4, 1):
        return f"Spark needs pyspark 4.1 or later, there is {pyspark.__version__}: pip install -U 'kdump[spark]'"
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        return f"Spark needs Java {_OLDEST_JAVA} or later: install a JDK, or set JAVA_HOME"
    return None


def session(
    master: str | None = None, conf: Mapping[str, str] | None = None, *, app_name: str = "kdump"
) -> SparkSession:
    """A session with kdump's sources registered; the one that there is, or a new one.

    A new one has this Python in its workers, says errors only, and shows its progress where standard error is a
    terminal.

    Args:
        master: as for ``spark-submit``; None: ``local[*]``, or what the environment of ``spark-submit`` says. One that
            begins with ``sc://`` is a Spark Connect server.
        conf: further settings.
        app_name: what a new session is called.

    Raises:
        KdumpError: UNREADABLE without pyspark, pyarrow or Java, or when Spark does not start.
    """
    missing = why_not()
    if missing is not None:
        raise KdumpError(Codes.UNREADABLE, missing)
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from kdump.spark.sources import register

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if master is not None and master.startswith("sc://"):
        builder = builder.remote(master)
    else:
        if master is not None or "SPARK_REMOTE" not in os.environ:
            builder = builder.master(master or os.environ.get("MASTER", LOCAL))
        for name, value in _defaults().items():
            builder = builder.config(name, value)
    for name, value in (conf or {}).items():
        builder = builder.config(name, value)
    try:
        spark: SparkSession = builder.getOrCreate()
    except (PySparkException, OSError, RuntimeError) as error:
        raise KdumpError(Codes.UNREADABLE, f"Spark does not start: {_first_line(error)}", path=master) from error
    register(spark)
    return spark


def _defaults() -> dict[str, str]:
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(is_terminal).lower(),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING}",
    }


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
