"""``--what-if`` and ``--at``: questions that ``kdump stats`` answers in place of its figures."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from kdump.cli import engine_options, exit_status
from kdump.cli.console import Console
from kdump.cli.params import Moment
from kdump.codes import Codes, Finding, KdumpError

if TYPE_CHECKING:
    from kdump.stats.whatif.answer import Answer
    from kdump.verify.partitionentries import PartitionEntries

_Function = TypeVar("_Function", bound=Callable[..., Any])

QUESTIONS: Final = ("codec", "magic", "batch-size", "compaction", "retention")
_UNITS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_SIZES: Final = {
    "b": 1,
    "kb": 1_000,
    "mb": 1_000_000,
    "gb": 1_000_000_000,
    "tb": 1_000_000_000_000,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
_LIMIT: Final = re.compile(r"(\d+)([a-z]+)", re.IGNORECASE)


class WhatIf(NamedTuple):
    """A question; ``milliseconds`` and ``size`` (bytes) are the limits of ``retention``."""

    question: str
    milliseconds: int | None = None
    size: int | None = None


class WhatIfParam(click.ParamType[WhatIf]):
    """``codec``, ``magic``, ``batch-size``, ``compaction``, or ``retention=LIMIT[,LIMIT]``."""

    name = "QUESTION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> WhatIf:
        """Usage error for anything else."""
        if isinstance(value, WhatIf):
            return value
        question, equals, limits = str(value).partition("=")
        if question not in QUESTIONS:
            self.fail(f"'{value}' is none of {', '.join(QUESTIONS[:-1])}, retention=7d, retention=10GB", param, ctx)
        if question != "retention":
            return WhatIf(question) if not equals else self.fail(f"{question} takes no value", param, ctx)
        found: dict[str, int] = {}
        for limit in limits.split(","):
            match = _LIMIT.fullmatch(limit.strip())
            unit = match[2].lower() if match else ""
            if match is None or (unit not in _UNITS and unit not in _SIZES):
                self.fail(f"'{limit}' is no time (7d, 12h, 600000ms) and no size (10GB, 512MiB)", param, ctx)
            kind = "milliseconds" if unit in _UNITS else "size"
            if kind in found:
                self.fail(f"'{limits}' limits the {'time' if kind == 'milliseconds' else 'size'} twice", param, ctx)
            found[kind] = int(match[1]) * (_UNITS if unit in _UNITS else _SIZES)[unit]
        return WhatIf(question, **found)


def whatif_options(function: _Function) -> _Function:
    """The two options; the function takes them as ``what_if`` and ``at``."""
    for option in (
        click.option(
            "--at",
            type=Moment(),
            metavar="TIME",
            help="The committed offsets, or the states of transactional ids, as of this time. With --what-if: take it "
            "for now.",
        ),
        click.option(
            "--what-if",
            "what_if",
            multiple=True,
            type=WhatIfParam(),
            metavar="QUESTION",
            help="What it would be with other settings: codec, magic, batch-size, compaction, retention=7d,10GB. "
            "May be repeated.",
        ),
    ):
        function = option(function)
    return function


def answer(paths: Sequence[str], given: Mapping[str, Any], output: str, console: Console) -> int:
    """Answer the questions in ``given``, and give the exit status.

    Raises:
        click.UsageError: options that say how figures are made.
    """
    option = "--what-if" if given["what_if"] else "--at"
    engine_options.session(given, paths, console.note, cannot={option: True})
    for other, is_given in (
        ("--quick", given["quick"]), ("--html", given["html"] is not None), ("--by", given["by"] != "segment"),
    ):  # fmt: skip
        if is_given:
            raise click.UsageError(f"{other} does not go with {option}")
    run = _Run(paths, given, output, console)
    if given["what_if"]:
        run.what_if(given["what_if"], now=given["at"])
    else:
        run.state(given["at"])
    console.close()
    return exit_status.combined(damaged=run.damaged, unreadable=run.unreadable)


class _Run:
    """Asks, prints, and remembers what was met."""

    def __init__(self, paths: Sequence[str], given: Mapping[str, Any], output: str, console: Console) -> None:
        self._paths = paths
        self._given = given
        self._is_json = output == "jsonl"
        self._console = console
        self.damaged = False
        self.unreadable = False

    def what_if(self, questions: Sequence[WhatIf], now: int | None) -> None:
        """Answers in the order of the questions; folds look at the logs in one pass."""
        from kdump.kafka.retention import Retention
        from kdump.stats.whatif.batchsize import BatchSizeQuestion
        from kdump.stats.whatif.codec import CodecQuestion
        from kdump.stats.whatif.magic import MagicQuestion
        from kdump.stats.whatif.run import WhatIfFold, WhatIfRun

        now = int(time.time() * 1000) if now is None else now
        logs = self._logs()
        what_if_run = WhatIfRun(logs, self._fail)
        kinds: dict[str, Callable[[], WhatIfFold]] = {
            "codec": CodecQuestion,
            "magic": MagicQuestion,
            "batch-size": BatchSizeQuestion,
        }
        folds = {asked.question: kinds[asked.question]() for asked in questions if asked.question in kinds}
        if folds and logs.partitions:
            what_if_run.fold(list(folds.values()))
        for asked in dict.fromkeys(questions if logs.partitions else ()):
            if asked.question in folds:
                self._show(folds[asked.question].answer())
            elif asked.question == "compaction":
                self._show(what_if_run.compaction(now))
            else:
                self._show(what_if_run.retention(Retention(asked.milliseconds, asked.size), now))

    def state(self, at: int) -> None:
        """The state of the coordinators whose topics are among the paths."""
        from kdump.stats.whatif.report import state_json, state_text
        from kdump.verify.coordinators import coordinator_states

        logs = self._logs()
        is_there = False
        console = self._console
        for found in coordinator_states(logs, at, self._fail):
            is_there = True
            for note in found.notes:
                console.note(f"{found.partition.name}: {note}")
            if self._is_json:
                self._write(state_json(found.decoder, found.rows))
            else:
                self._write(state_text(found.decoder, found.rows, width=console.width, color=console.color))
        if not is_there and not self.unreadable:
            what = "no partition of __consumer_offsets or __transaction_state, by the name of its directory (--at)"
            self._fail(KdumpError(Codes.NO_SEGMENTS, what, path=self._paths[0]))

    def _logs(self) -> PartitionEntries:
        from kdump.log.metered import MeteredSource
        from kdump.log.opening import open_source
        from kdump.verify.partitionentries import PartitionEntries

        progress = self._console.reporter(verbose=self._given["verbose"]).progress
        rate = self._given["rate"]
        return PartitionEntries(
            self._paths,
            on_error=self._fail,
            on_damage=self._skip,
            opened=lambda path: MeteredSource(open_source(path), rate, progress),
            limit=self._given["max_decompressed_size"],
        )

    def _show(self, answer: Answer) -> None:
        from kdump.stats.whatif.report import answer_json, answer_text

        console = self._console
        self._write(
            answer_json(answer) if self._is_json else answer_text(answer, width=console.width, color=console.color)
        )

    def _write(self, text: str) -> None:
        self._console.out.write(text.encode("utf-8", "surrogateescape"))

    def _fail(self, error: KdumpError) -> None:
        self.unreadable = True
        self._console.show_error(error)

    def _skip(self, path: str, finding: Finding) -> None:
        self.damaged = True
        self._console.note(f"{path}: skipped {finding}")
