"""Which options of a command do not go together: the rules, and what reads them.

An option is written as a user writes it: ``--follow``, ``--output csv``. What is not an option, such as the kind of a
PATH, is a fact, and the command says which facts hold.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from kdump.worlds import World


class Conflict:
    """One rule.

    Args:
        options: the rule holds where one of these is given; none: always.
        excludes: none of these may be given too.
        needs: one of these must be given too.
        only: no other parameters may be given, by their names; those in ``options`` may.
        message: ``{option}`` is the option that is given, ``{other}`` the one that it excludes.
    """

    # Not a dataclass: that compiles code whenever the module is loaded, for every command.

    def __init__(
        self,
        *options: str,
        excludes: tuple[str, ...] = (),
        needs: tuple[str, ...] = (),
        only: frozenset[str] | None = None,
        message: str = "",
    ) -> None:
        self.options = options
        self.excludes = excludes
        self.needs = needs
        self.only = only
        self.message = message or (
            f"{{option}} goes with {' or '.join(needs)}" if needs else "{option} does not go with {other}"
        )


def each_other(*options: str) -> tuple[Conflict, ...]:
    """At most one of ``options`` may be given."""
    return tuple(
        Conflict(option, excludes=options[number + 1 :], message="{option} and {other} exclude each other")
        for number, option in enumerate(options[:-1])
    )


EVERYWHERE: Final = frozenset({"verbose", "traceback", "rate", "idle"})
"""Parameters that go with everything."""


def world_facts(paths: Sequence[str]) -> dict[str, str | bool | None]:
    """The facts that a PATH is of another world, and that another one is not."""
    found = {path: _world(path) for path in paths}
    world_path = next((path for path, world in found.items() if world is not None), None)
    if world_path is None or (world := found[world_path]) is None:
        return {"a file of another world": None, "another PATH": None}
    # Of a path where nothing is, who opens it tells that.
    other = next((path for path, there in found.items() if there is None and os.path.lexists(path)), None)
    return {"a file of another world": f"{world_path} is of {world.title}", "another PATH": other}


def _world(path: str) -> World | None:
    # The options of kdump itself need none of these.
    from kdump.codes import KdumpError
    from kdump.log.files import strip_credentials
    from kdump.worlds import world_of_path

    try:
        return world_of_path(strip_credentials(path))
    except KdumpError:
        # Whoever opens it tells why it cannot be read.
        return None


class GivenOptions:
    """What the current command was given.

    Args:
        facts: which facts hold, by their names; a text is shown in messages in place of the name.
    """

    def __init__(self, facts: Mapping[str, str | bool | None] | None = None) -> None:
        self._context = click.get_current_context()
        self._facts = facts or {}

    def check(self, conflicts: Iterable[Conflict]) -> None:
        """Raises click.UsageError where a rule is broken."""
        for conflict in conflicts:
            option = self.first(conflict.options)
            if conflict.options and option is None:
                continue
            other = self.first(conflict.excludes)
            if conflict.only is not None:
                other = self._other_parameter(conflict.only, conflict.options)
            if other is not None or (conflict.needs and self.first(conflict.needs) is None):
                raise click.UsageError(conflict.message.format(option=self._shown(option), other=self._shown(other)))

    def first(self, names: Iterable[str]) -> str | None:
        """The first of these options and facts that is given."""
        return next((name for name in names if self._has(name)), None)

    def _has(self, name: str) -> bool:
        if name in self._facts:
            fact = self._facts[name]
            return fact is not None and fact is not False
        option, _, wanted = name.partition(" ")
        for parameter in self._context.command.params:
            value = self._context.params.get(parameter.name or "")
            if option in parameter.secondary_opts:
                return value is False
            if option not in parameter.opts:
                continue
            if wanted:
                return str(value) == wanted
            if isinstance(parameter, click.Option) and parameter.is_flag:
                return value is True if parameter.is_bool_flag else bool(value == parameter.flag_value)
            return value is not None and value != () and value != parameter.get_default(self._context)
        return False

    def _other_parameter(self, allowed: frozenset[str], options: tuple[str, ...]) -> str | None:
        """A parameter on the command line that is not allowed."""
        for parameter in self._context.command.params:
            is_given = self._context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
            if is_given and parameter.name not in allowed and not set(parameter.opts) & set(options):
                return parameter.opts[-1]
        return None

    def _shown(self, name: str | None) -> str | None:
        fact = self._facts.get(name or "")
        return fact if isinstance(fact, str) else name
