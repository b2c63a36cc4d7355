"""The face of the library: its names, and what importing it costs."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kdump

ROOT = Path(kdump.__file__).parent
_TELL = """
import sys, json, time
before = set(sys.modules)
start = time.process_time()
import kdump
print(json.dumps([time.process_time() - start, sorted(set(sys.modules) - before)]))
"""
_ALL_MODULES = """
import importlib, inspect, json, sys
import kdump
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
print(json.dumps({name: inspect.ismodule(getattr(kdump, name)) for name in kdump.__all__}))
"""


def told(code: str, *words: str) -> Any:
    run = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, check=True, text=True)
    return json.loads(run.stdout)


def test_importing_kdump_costs_nothing() -> None:
    found = [told(_TELL) for _ in range(5)]
    assert min(seconds for seconds, _ in found) < 0.015
    assert {name.partition(".")[0] for name in found[0][1]} - sys.stdlib_module_names == {"kdump"}


def test_the_face_is_all_that_there_is() -> None:
    assert dir(kdump) == sorted(kdump.__all__)
    assert kdump.__all__ == sorted(kdump.__all__)
    for name in kdump.__all__:
        assert getattr(kdump, name) is not None


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        kdump.nothing  # noqa: B018


@pytest.mark.slow
def test_no_module_takes_the_name_of_a_function() -> None:
    modules = [
        ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in ROOT.rglob("*.py")
        if path.name != "__main__.py"
    ]
    is_module = told(_ALL_MODULES, json.dumps(modules))
    assert {name for name, is_one in is_module.items() if is_one} <= {"testing"}
    names = {name.rpartition(".")[2] for name in modules}
    assert not names & (set(kdump.__all__) - {"testing"})


def test_every_function_and_class_has_documentation() -> None:
    for name in kdump.__all__:
        value = getattr(kdump, name)
        assert name == "__version__" or inspect.getdoc(value)
