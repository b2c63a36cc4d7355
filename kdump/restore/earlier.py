"""What an earlier run has restored, by its manifest: the same command run again need not restore it once more."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from kdump.codes import Codes, KdumpError
from kdump.convert.conversion import Losses, LossKind
from kdump.repair.apply.folders import open_repair
from kdump.repair.apply.manifest import HOME, MANIFEST_NAME, Manifest, State
from kdump.repair.apply.undo import is_as_made
from kdump.restore.newlogs import NewPartition
from kdump.restore.plan import RestoreOptions, RestorePlan

WAY: Final = "restore"
"""What the manifest of a restored partition calls it."""
_REQUEST: Final = "request"
_NUMBERS: Final = {
    "logStartOffset": "log_start",
    "logEndOffset": "log_end",
    "size": "size",
    "linked": "linked",
    "transactionsEnded": "ended",
}
"""Members of the account, and the attributes of ``NewPartition`` that they have."""


def request_of(plan: RestorePlan, options: RestoreOptions) -> str:
    """The SHA-256 of all that decides what a partition becomes: the logs of the source, the target, the options.

    Raises:
        KdumpError: a log is gone meanwhile.
    """
    logs = [(os.path.realpath(one.path), one.size, _modified(one.path)) for one in plan.segments]
    target = (plan.target.name, plan.target.topic_id)
    transactions = (options.transactions, sorted((one, policy.value) for one, policy in plan.transactions.items()))
    asked = (options.conversion_for(plan.target), options.is_converted, options.forgets_producers, transactions)
    return hashlib.sha256(repr((logs, plan.log_start, target, asked)).encode("utf-8", "surrogateescape")).hexdigest()


def _modified(log: str) -> int:
    try:
        return os.stat(log).st_mtime_ns
    except OSError as error:
        raise KdumpError(Codes.UNREADABLE, error.strerror or str(error), path=log) from error


def account_of(request: str, new: NewPartition) -> dict[str, Any]:
    """What the manifest keeps of a restore."""
    numbers = {member: getattr(new, name) for member, name in _NUMBERS.items()}
    return {_REQUEST: request, **numbers, "losses": {loss.label: count for loss, count in new.losses.items()}}


def made_by(manifest: Manifest) -> NewPartition | None:
    """What a restore made, by its manifest; None where that does not tell."""
    account = manifest.account or {}
    labels: object = account.get("losses")
    numbers = {name: account.get(member) for member, name in _NUMBERS.items()}
    logs = [one.get("path") for one in manifest.logs]
    if not isinstance(labels, Mapping) or not all(
        isinstance(one, int) for one in (*numbers.values(), *labels.values())
    ):
        return None
    kinds = {kind.label: kind for kind in LossKind}
    losses = Losses({kinds[label]: count for label, count in labels.items() if label in kinds})
    made = NewPartition(logs=[str(log) for log in logs], losses=losses)
    for name, value in numbers.items():
        setattr(made, name, value)
    return made


def restored_before(directory: str, backup: str | None, request: str) -> tuple[str, NewPartition | None] | None:
    """The restore of a partition that did what is asked for, and nothing has changed since; None: there is none.

    Gives its manifest, and what was made; None where the manifest does not tell.

    Args:
        directory: of the partition.
        backup: the directory that is named for the originals.
        request: of ``request_of``.
    """
    for path in _manifests(directory, backup):
        # What cannot be followed says nothing.
        with suppress(KdumpError):
            folders, manifest = open_repair(path, backup)
            with folders:
                is_own = os.path.realpath(folders.partition.path) == os.path.realpath(directory)
                is_done = is_own and manifest.way == WAY and manifest.state is State.DONE
                if is_done and (manifest.account or {}).get(_REQUEST) == request and is_as_made(folders, manifest):
                    return path, made_by(manifest)
    return None


def _manifests(directory: str, backup: str | None) -> Iterator[str]:
    """Paths of manifests of the partition, the newest first."""
    for place, prefix in ((os.path.join(directory, HOME), ""), (backup, f"{os.path.basename(directory)}-")):
        if place is None or not os.path.isdir(place):
            continue
        for name in sorted(os.listdir(place), reverse=True):
            path = os.path.join(place, name, MANIFEST_NAME)
            if name.startswith(prefix) and os.path.isfile(path):
                yield path
