"""Reads a manifest, which somebody else may have written.

It is checked as a whole before it is used. Every name in it must be one part of a path, in the partition directory or
in the journal's own directories, and every step must change a file that it lists.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from kdump.format.checkpoint import OFFSET_CHECKPOINTS
from kdump.repair.apply.manifest import (
    FORMAT,
    HOME,
    KEPT,
    MARKER,
    MAX_SIZE,
    OLD,
    SWAP,
    Action,
    Bystander,
    FileChange,
    FileState,
    Manifest,
    RepairStep,
    State,
)
from kdump.repair.plan.plan import LineChange
from kdump.wire.jsontext import check_depth, read_json

_DEPTH: Final = 16
"""Most levels of the JSON; kdump writes 6."""
_NAME_SIZE: Final = 255
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_DIGITS: Final = 40
_INT32: Final = 2**32 - 1
_INT64: Final = 2**63 - 1
_NS: Final = 10**9
"""Nanoseconds of a second: file systems have seconds beyond the year 2262, where nanoseconds need more than 64 bits."""


def parse_manifest(data: bytes) -> Manifest:
    """The manifest in a file. Raises ValueError if it is none, or must not be followed."""
    if len(data) > MAX_SIZE:
        raise ValueError(f"it has more than {MAX_SIZE:,} bytes")
    members = read_json(data, _parsed_integer)
    check_depth(members, _DEPTH)
    return validate(members)


def validate(members: object) -> Manifest:
    """The manifest of JSON's values. Their types and ranges must be right, and all parts must fit together.

    Raises:
        ValueError: with what is wrong.
    """
    values = _members(members, _MANIFEST, _LATER)
    if values.pop("format") != FORMAT:
        raise ValueError("its format is another")
    manifest = Manifest(**values)
    changes = _by_name(manifest.files)
    lines = None if manifest.lines is None else _by_name(manifest.lines)
    bystanders = manifest.bystanders
    # A file that stays may wait under a second name; manifests without bystanders do not list it.
    waiting = None if bystanders is None else {name + SWAP for name in (*changes, *_by_name(bystanders))}
    for change in manifest.files:
        _check_change(change)
    for step in manifest.steps:
        _check_step(step, changes, lines, waiting)
    # A step may cost much more than its few bytes: one with a line reads the whole checkpoint.
    changing = [(step.action, step.target, step.source) for step in manifest.steps if step.action is not Action.SYNC]
    if len(set(changing)) < len(changing):
        raise ValueError("a step is in it twice")
    if len({prepared[0] for step in manifest.steps if (prepared := step.prepared)}) > 1:
        raise ValueError("its sources lie in several journals")
    return manifest


def _check_change(change: FileChange) -> None:
    before, after, kept, saved = change.before, change.after, change.kept, change.saved
    cut = os.path.join(OLD, f"{change.base_name}.from-{kept}")
    whole = os.path.join(OLD, change.base_name)
    if before is None and (after is None or saved is not None or kept):
        raise ValueError(f"{change.name!r} was not there, and something of it is saved")
    if before is not None and saved not in ((cut,) if kept else (whole, cut)):
        raise ValueError(f"{saved!r} is not where the original of {change.name!r} is saved")
    if kept and (before is None or after is None or not kept == after.size <= before.size):
        raise ValueError(f"{change.name!r} cannot be cut at {kept}")
    if change.name == MARKER and after is not None:
        raise ValueError("the marker of a clean shutdown is only removed")


def _check_step(
    step: RepairStep,
    changes: Mapping[str, FileChange],
    lines: Mapping[str, LineChange] | None,
    waiting: Container[str] | None,
) -> None:
    target, source, prepared = step.target, step.source, step.prepared
    if step.action is Action.SYNC:
        is_fitting = target in (os.curdir, os.pardir)
    elif step.action is Action.LINE:
        is_fitting = lines is None or (target in lines and lines[target].after == step.position)
    elif step.action is Action.CUT:
        change = changes.get(target)
        is_fitting = (
            change is not None
            and change.before is not None
            and change.after is not None
            and change.kept == change.after.size == step.position
            and step.modified is not None
        )
    else:
        name = target.removesuffix(SWAP)
        is_fitting = target in changes or (target != name if waiting is None else target in waiting)
        is_own = source == target + SWAP or (prepared is not None and prepared[1] in (target, name))
        if step.action is Action.PLACE:
            is_fitting = is_fitting and is_own and target != MARKER
        else:
            is_fitting = is_fitting and (source is None or is_own or _is_name(source))
    if not is_fitting:
        raise ValueError(f"the step {step.action.value} of {target!r} does not fit what it lists")


_Named = TypeVar("_Named", FileChange, LineChange, Bystander)


def _by_name(entries: Iterable[_Named]) -> dict[str, _Named]:
    named: dict[str, _Named] = {}
    for entry in entries:
        if entry.name in named:
            raise ValueError(f"{entry.name!r} is listed twice")
        named[entry.name] = entry
    return named


# Values of JSON.

_Check = Callable[[Any], Any]


def _members(value: object, needed: Mapping[str, _Check], others: Mapping[str, _Check] | None = None) -> dict[str, Any]:
    """The members of an object, checked: those of ``needed`` must be there."""
    if not isinstance(value, dict):
        raise ValueError("a value in it is no object")
    checks = {**needed, **(others or {})}
    if missing := needed.keys() - value.keys():
        raise ValueError(f"{min(missing)} is missing")
    if unknown := value.keys() - checks.keys():
        raise ValueError(f"{min(unknown)!r} is nothing that it has")
    checked = {}
    for name, member in value.items():
        try:
            checked[name] = checks[name](member)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return checked


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError("is no text")
    os.fsencode(value)
    return value


def _time(value: object) -> str:
    datetime.fromisoformat(_text(value))
    return _text(value)


def _integer(low: int, high: int) -> Callable[[object], int]:
    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"is no number from {low} to {high}")
        return value

    return check


def _digest(value: object) -> str:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise ValueError("is no SHA-256")
    return value


def _is_name(value: str) -> bool:
    return value == os.path.basename(value) and value not in ("", os.curdir, os.pardir, HOME)


def _name(value: object) -> str:
    """One part of a path."""
    name = _text(value)
    if not _is_name(name) or len(os.fsencode(name)) > _NAME_SIZE:
        raise ValueError(f"{name[:_NAME_SIZE]!r} is no name of a file in the partition directory")
    return name


def _file(value: object) -> str:
    return MARKER if value == MARKER else _name(value)


def _target(value: object) -> str:
    return str(value) if value in (os.curdir, os.pardir) else _file(value)


def _source(value: object) -> str:
    source = RepairStep(Action.PLACE, "", _text(value))
    for name in source.prepared or (value,):
        _name(name)
    return _text(value)


def _saved(value: object) -> str:
    folder, _, name = _text(value).partition(os.sep)
    if folder != OLD:
        raise ValueError(f"does not lie in {OLD}")
    return os.path.join(OLD, _name(name))


def _kept_directory(value: object) -> str:
    if not _name(value).startswith(KEPT):
        raise ValueError(f"does not begin with {KEPT}")
    return _name(value)


def _checkpoint(value: object) -> str:
    if value not in OFFSET_CHECKPOINTS:
        raise ValueError("is no offset checkpoint")
    return str(value)


def _account(value: object) -> dict[str, Any]:
    """What a repair did to a log, or what a restore came to; no step follows from it."""
    if not isinstance(value, dict):
        raise ValueError("is no object")
    return value


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("is neither true nor false")
    return value


def _optional(check: _Check) -> _Check:
    return lambda value: None if value is None else check(value)


def _each(check: _Check) -> _Check:
    def checked(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError("is no list")
        return tuple(map(check, value))

    return checked


def _parsed_integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number in it has {len(digits):,} digits")
    return int(digits)


_size = _integer(0, _INT64)
_number = _integer(-_INT64 - 1, _INT64)
_moment = _integer((-_INT64 - 1) * _NS, (_INT64 + 1) * _NS)
_FILE_STATE: Final[Mapping[str, _Check]] = {
    "size": _size,
    "sha256": _digest,
    "mode": _integer(0, 0o7777),
    "uid": _integer(0, _INT32),
    "gid": _integer(0, _INT32),
    "modified": _moment,
}


def _file_state(value: object) -> FileState:
    return FileState(**_members(value, _FILE_STATE))


_FILE_CHANGE: Final[Mapping[str, _Check]] = {
    "name": _file,
    "before": _optional(_file_state),
    "after": _optional(_file_state),
}
_ORIGINAL: Final[Mapping[str, _Check]] = {"saved": _optional(_saved), "kept": _size}
_STEP: Final[Mapping[str, _Check]] = {"action": Action, "target": _target}
_MOVE: Final[Mapping[str, _Check]] = {
    "source": _optional(_source),
    "position": _optional(_size),
    "modified": _optional(_moment),
}
_LINE: Final[Mapping[str, _Check]] = {"name": _checkpoint, "before": _optional(_number), "after": _size}
_BYSTANDER: Final[Mapping[str, _Check]] = {
    "name": _name,
    "size": _size,
    "modified": _moment,
    "sha256": _optional(_digest),
}
_MANIFEST: Final[Mapping[str, _Check]] = {
    "format": _size,
    "directory": _text,
    "backup": _text,
    "created": _time,
    "version": _text,
    "way": _text,
    "state": State,
    "files": _each(lambda value: FileChange(**_members(value, _FILE_CHANGE, _ORIGINAL))),
    "steps": _each(lambda value: RepairStep(**_members(value, _STEP, _MOVE))),
    "logs": _each(_account),
}
_LATER: Final[Mapping[str, _Check]] = {
    "lines": _optional(_each(lambda value: LineChange(**_members(value, _LINE)))),
    "bystanders": _optional(_each(lambda value: Bystander(**_members(value, _BYSTANDER)))),
    "replaced": _optional(_kept_directory),
    "is_new": _bool,
    "account": _optional(_account),
}
"""Manifests of earlier versions do not have them."""
