"""What an option is: declared once, as an attribute of the class that holds a command's options when it runs.

The declaration has the names and the kind of the value, the line of ``--help``, the paragraph of the manual, the group
under whose heading both stand, and what the option does not go with. click's parameters, and by them the completion,
come from it, and so does the section OPTIONS of the manual (``make man``).
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final

import click

from kdump.cli.conflicts import Conflict, GivenOptions

if TYPE_CHECKING:
    from click.types import OptionHelpExtra

    from kdump.inputs import Input

PATH: Final = click.Path(readable=False)
"""It is read where it is used: a path that cannot be read is no error of usage."""
_PLACES: Final = "a segment, a partition directory or a log directory; log.dirs in server.properties names those"


class OptionGroup(StrEnum):
    """The headings of the help and of the section OPTIONS of the manual, in their order."""

    READ = "What to read"
    MODE = "Mode"
    SALVAGE = "With --salvage"
    CHECK = "What is checked"
    COMPARE = "What is compared"
    COUNT = "What is counted"
    CHOICE = "Ranges and filters"
    START = "What a start will do"
    QUESTIONS = "Questions"
    WRITE = "What is written"
    BROKER = "For a broker"
    SERVER = "How clients connect"
    OUTPUT = "Output"
    DAMAGE = "Damage"
    KNOWN = "What is known"
    IN_PLACE = "In place"
    LIMITS = "Engine and limits"
    JAVA = "As kafka-dump-log.sh"
    GENERAL = "General"


class Option(click.Option):
    """An option of a group. Its help shows the default, but not the range of a number.

    Attributes:
        group: its heading.
        conflicts: what it does not go with.
    """

    def __init__(
        self,
        *arguments: Any,
        help: str = "",
        group: OptionGroup = OptionGroup.GENERAL,
        manual: str = "",
        conflicts: Sequence[Conflict] = (),
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **{"show_default": True, **attributes})
        # It is one line: there is nothing to clean, for which click would load the module ``inspect``.
        self.help = help
        self.group = group
        self.conflicts = conflicts
        self._manual = manual

    @property
    def manual(self) -> str:
        """Its paragraphs in the manual, see ``manual.roff()``."""
        return inspect.cleandoc(self._manual) or self.help or ""

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        """As click does, with a default in words as it is written."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        if isinstance(self.show_default, str):
            extra["default"] = self.show_default
        return extra


class Helping(click.Command):
    """A command whose ``--help`` is an Option as all others. ``about_help``: its paragraph in the manual."""

    about_help = "Print all options and exit."
    _help: Option | None = None

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """As click makes it."""
        if self._help is None:
            names = self.get_help_option_names(ctx)
            click.help_option(*names, "help", cls=Option, manual=self.about_help)(self)
            made = self.params.pop()
            assert isinstance(made, Option)
            self._help = made
        return self._help


class _Declared:
    """A parameter that gets its name from the attribute that it is the value of."""

    def __init__(self, kind: type[click.Parameter], names: list[str], attributes: Mapping[str, Any]) -> None:
        self._kind = kind
        self._names = names
        self._attributes = attributes

    def parameter(self, name: str) -> click.Parameter:
        """The parameter for click."""
        return self._kind([*self._names, name], **self._attributes)


def option(
    group: OptionGroup,
    names: str,
    help: str,
    manual: str = "",
    *,
    needs: tuple[str, ...] = (),
    excludes: tuple[str, ...] = (),
    message: str = "",
    **attributes: Any,
) -> Any:
    """Declare an option.

    Args:
        group: its heading.
        names: as in the help: ``-j, --jobs N``; without a placeholder and a type it is a flag.
        help: the line of the help.
        manual: the paragraphs of the manual; none: the line of the help.
        needs: it goes with one of these only.
        excludes: it goes with none of these.
        message: says so, see ``Conflict``.
        attributes: of ``click.Option``. A tuple as ``type``: the values there are.
    """
    spellings, _, placeholder = names.partition(" ") if ", " not in names else _after_last_comma(names)
    kind = attributes.get("type")
    if isinstance(kind, tuple):
        attributes["type"] = click.Choice(kind)
    if placeholder:
        attributes["metavar"] = placeholder
    elif kind is None and "flag_value" not in attributes and "/" not in names:
        attributes["is_flag"] = True
    found = spellings.split(", ")
    both = found[-1].split("/")
    conflicts = [Conflict(*both, needs=needs, message=message)] if needs else []
    if excludes:
        conflicts.append(Conflict(*both, excludes=excludes, message=message))
    attributes |= {"group": group, "help": help, "manual": manual, "conflicts": conflicts}
    return _Declared(Option, found, attributes)


def _after_last_comma(names: str) -> tuple[str, str, str]:
    first, comma, last = names.rpartition(", ")
    spelling, blank, placeholder = last.partition(" ")
    return first + comma + spelling, blank, placeholder


def argument(placeholder: str, *, many: bool = False, **attributes: Any) -> Any:
    """Declare an argument; ``placeholder`` stands for it in the help."""
    attributes = {"metavar": placeholder, "required": False, "nargs": -1 if many else 1, **attributes}
    return _Declared(click.Argument, [], attributes)


def either(*options: Any) -> Any:
    """Declare several options that set the same attribute."""
    return options


class Arguments:
    """The values of a command's options. The attributes of the class are their declarations.

    Attributes:
        needed: what must be given besides options.
        one_path: what to type, for somebody who gives more arguments than there may be.
        about: of some groups a sentence or two that stand in the manual before their options.
        conflicts: what does not go together, besides what the declarations of the options say.
        inputs: what the PATHs mean, once the command has looked at them (``Run.find_inputs``).
    """

    needed: ClassVar[str] = "PATH"
    one_path: ClassVar[str] = ""
    about: ClassVar[Mapping[OptionGroup, str]] = {}
    conflicts: ClassVar[tuple[Conflict, ...]] = ()

    paths: tuple[str, ...] = ()
    output: str = "text"
    color: str = "auto"
    pager: bool = False

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.inputs: list[Input] = []
        self.__dict__.update(given)

    @classmethod
    def parameters(cls) -> list[click.Parameter]:
        """For click, those of the class first, then those of its bases."""
        declared: dict[str, Any] = {}
        for kind in cls.__mro__:
            declared = {**declared, **{name: value for name, value in vars(kind).items() if name not in declared}}
        return [
            one.parameter(name)
            for name, value in declared.items()
            for one in (value if isinstance(value, tuple) else (value,))
            if isinstance(one, _Declared)
        ]

    @classmethod
    def all_conflicts(cls) -> Iterator[Conflict]:
        """Those of the options in their order, then those of the class and of its bases."""
        for parameter in cls.parameters():
            if isinstance(parameter, Option):
                yield from parameter.conflicts
        for kind in cls.__mro__:
            yield from vars(kind).get("conflicts", ())

    def facts(self) -> Mapping[str, str | bool | None]:
        """What else the rules ask, such as the kind of a PATH; a text is shown in messages in place of the name."""
        return {}

    def is_complete(self) -> bool:
        """There is something to work on, if the command takes PATHs."""
        return bool(self.__dict__.get("paths", True))

    def given(self) -> GivenOptions:
        """Which options are given, and which facts hold."""
        return GivenOptions(self.facts())

    def check(self) -> None:
        """Raises click.UsageError where a rule is broken, or nothing to work on is given."""
        context = click.get_current_context()
        for path in self.paths:
            if re.fullmatch("[a-z]+", path) and not os.path.exists(path):
                from kdump.cli.words import output_hint  # slow to load, and rarely needed

                hint = output_hint(path, context)
                if hint:
                    raise click.UsageError(f"there is no file '{path}'. {hint}")
        if not self.is_complete():
            raise click.UsageError(f"no {self.needed} given: {_PLACES} (kdump {context.info_name} --help)")
        self.given().check(self.all_conflicts())

    @property
    def stdout_form(self) -> str:
        """The form of what goes to standard output, see ``Console``."""
        return self.output

    @property
    def writes_at_once(self) -> bool:
        """Every piece of the output goes out as it comes, also into a pipe."""
        return False
