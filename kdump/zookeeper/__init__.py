"""Data directories of ZooKeeper: transaction logs, snapshots, and the tree that a server restores of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump.dump.worlddump import WorldDump
    from kdump.state.worldstate import WorldStates
    from kdump.verify.run import WorldPathChecks
    from kdump.zookeeper import dump, state, verify

    # mypy holds the modules to what the core expects of them.
    _dump: WorldDump = dump
    _state: WorldStates = state
    _verify: WorldPathChecks = verify
