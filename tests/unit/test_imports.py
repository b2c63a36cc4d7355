"""The arrows of docs/architecture.md: a package imports only packages to its left."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import kdump

ROOT = Path(kdump.__file__).parent

RANKS = [
    {"codes", "limits", "releases", "worlds"},
    {"system"},
    {"wire"},
    {"format"},
    {"fast", "log", "payloads"},
    {"inputs"},
    {"reading"},
    {"rows", "kafka", "explain"},
    {"tasks"},
    {"dump", "verify"},
    {"diff"},
    {"convert", "stats", "repair"},
    {"state"},
    {"schemas"},
    {"restore", "serve", "spark", "library", "kafka07", "zookeeper", "tiered"},
    {"cli", "testing"},
]
RANK = {package: rank for rank, packages in enumerate(RANKS) for package in packages}

ONLY_IN = {"click": "cli", "pyspark": "spark"}

MODULES = sorted(ROOT.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(module: str) -> str | None:
    """First component below kdump; None for kdump itself and its ``__main__``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] != "__main__" else None


@cache
def imports(path: Path) -> tuple[str, ...]:
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    """Every module that is imported, wherever in the file, for type checking too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                is_module = (ROOT.parent / Path(*name.split("."))).with_suffix(".py").is_file()
                is_package = (ROOT.parent / Path(*name.split("."))).is_dir()
                yield name if is_module or is_package else node.module


def allowed(importer: str, imported: str) -> bool:
    here, there = package_of(importer), package_of(imported)
    if here is None or there is None or here == there:
        return True
    return RANK[there] < RANK[here]


def test_arrows() -> None:
    wrong = []
    for path in MODULES:
        module = module_name(path)
        for imported in imports(path):
            top = imported.partition(".")[0]
            is_wrong = top in ONLY_IN and package_of(module) != ONLY_IN[top]
            if is_wrong or (top == "kdump" and not allowed(module, imported)):
                wrong.append(f"{module} imports {imported}")
    assert wrong == []


def test_every_package_has_its_place() -> None:
    packages = {package for path in MODULES if (package := package_of(module_name(path)))}
    assert packages <= RANK.keys()


def test_the_rule_refuses() -> None:
    assert allowed("kdump.dump.text.tool", "kdump.log.walk")
    assert allowed("kdump.cli.dump", "kdump.system.blocks")
    assert not allowed("kdump.wire.varint", "kdump.format.batch")
    assert not allowed("kdump.log.walk", "kdump.fast.walk")
    assert not allowed("kdump.payloads.java", "kdump.verify.gaps")
    assert not allowed("kdump.codes", "kdump.wire")


def circles(graph: Mapping[str, set[str]]) -> set[tuple[str, ...]]:
    """Sets of modules that reach one another, each sorted; ``graph``: what each module imports."""

    def reached(module: str) -> set[str]:
        found: set[str] = set()
        left = [module]
        while left:
            new = graph.get(left.pop(), set()) - found
            found |= new
            left += new
        return found

    reach = {module: reached(module) for module in graph}
    return {
        tuple(sorted({other for other in reach[module] if module in reach.get(other, ())}))
        for module in graph
        if module in reach[module]
    }


def test_no_circles() -> None:
    """Imports inside functions and those for type checking count too.

    ``kdump/__init__.py`` imports for type checking only: it names where the library comes from.
    """
    graph = {module_name(path): set(imports(path)) for path in MODULES if path != ROOT / "__init__.py"}
    assert circles(graph) == set()


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"os"}}) == set()
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "a"}, "d": {"a"}}) == {("a", "b", "c")}
    assert circles({"a": {"a"}}) == {("a",)}


REPAIR_PARTS = ("salvage", "plan", "apply")
"""The packages in ``repair``, each imports only those before it; the modules beside them import all."""


def test_parts_of_repair() -> None:
    for number, part in enumerate(REPAIR_PARTS):
        known = tuple(f"kdump.repair.{one}" for one in REPAIR_PARTS[: number + 1])
        for path in (ROOT / "repair" / part).glob("*.py"):
            for imported in imports(path):
                assert not imported.startswith("kdump.repair") or imported.startswith(known), f"{path.name}: {imported}"


def test_worlds_are_known_at_the_edge_only() -> None:
    """Who prints saved requests or older texts names the package; everybody else asks ``kdump.worlds``."""
    edges = {"kdump.kafka07": ["frame.py"], "kdump.zookeeper": [], "kdump.dump.dialects": ["java_options.py"]}
    for world, expected in edges.items():
        folder = ROOT.parent / Path(*world.split("."))
        others = [path for path in MODULES if folder not in path.parents]
        knows = [
            path.name for path in others if any(f"{imported}.".startswith(f"{world}.") for imported in imports(path))
        ]
        assert knows == expected


CHANGES_FILES = {
    "chmod", "chown", "fchmod", "fchown", "ftruncate", "link", "makedirs", "mkdir", "pwrite", "remove", "rename",
    "replace", "rmdir", "symlink", "truncate", "unlink", "utime", "write",
}  # fmt: skip
"""Functions of ``os`` that write."""


def test_one_module_of_repair_writes() -> None:
    for path in (ROOT / "repair").rglob("*.py"):
        calls = {
            node.attr
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
        }
        assert path.name == "disk.py" or not calls & CHANGES_FILES, path.name
