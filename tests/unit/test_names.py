"""Names in kdump/: no two classes share one, and no module only forwards the imports of others."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import kdump

ROOT = Path(kdump.__file__).parent
MODULES = {str(path.relative_to(ROOT)): path.read_text() for path in sorted(ROOT.rglob("*.py"))}


def class_names(text: str) -> list[str]:
    """Names of all classes of a module, nested ones too."""
    return re.findall(r"^ *class (\w+)", text, re.MULTILINE)


def shared_names(modules: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Class names that more than one class has, with the modules of these classes."""
    found: dict[str, list[str]] = defaultdict(list)
    for module, text in modules:
        for name in class_names(text):
            found[name].append(module)
    return {name: where for name, where in found.items() if len(where) > 1}


def only_forwards(text: str) -> bool:
    """The module has imports, and at most a docstring and ``__all__`` beside them."""
    if re.search(r"^(?:async )?(?:def|class) ", text, re.MULTILINE):
        return False
    statements = [
        node
        for node in ast.parse(text).body
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        and not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
        and not (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")
    ]
    return bool(statements) and all(isinstance(node, ast.Import | ast.ImportFrom) for node in statements)


def test_no_two_classes_have_the_same_name() -> None:
    assert shared_names(MODULES.items()) == {}


def test_no_module_only_forwards() -> None:
    """``kdump/__init__.py`` is the face of the library; that is its task."""
    assert [module for module, text in MODULES.items() if only_forwards(text)] in ([], ["__init__.py"])


def test_the_rules_refuse() -> None:
    assert shared_names([("a.py", "class _Row: ..."), ("b.py", "def f():\n    class _Row: ...")]) == {
        "_Row": ["a.py", "b.py"]
    }
    assert not shared_names([("a.py", "class Row: ..."), ("b.py", "class _Row: ...")])
    assert only_forwards('"""Old name."""\n\nfrom kdump.codes import Codes\n\n__all__ = ["Codes"]\n')
    assert not only_forwards("from kdump.codes import Codes\n\nCODE = Codes.MISSING\n")
    assert not only_forwards('"""A package."""\n')
