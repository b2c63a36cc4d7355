"""``kdump stats --what-if``: the answers in place of the figures."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from kdump.cli.command import Run
from kdump.cli.options.stats import StatsArguments
from kdump.cli.params import WhatIf
from kdump.releases import RELEASES

if TYPE_CHECKING:
    from kdump.kafka.image.topicsettings import TopicSettings
    from kdump.kafka.retention import Retention
    from kdump.stats.whatif.answer import Answer
    from kdump.verify.fates import ClusterImages
    from kdump.verify.partitionentries import Partition


def answer(run: Run[StatsArguments]) -> None:
    """Answer the questions."""
    _Questions(run).what_if(run.given.what_if, run.given.now)


class _Questions:
    """Asks, prints, and remembers what was met."""

    def __init__(self, run: Run[StatsArguments]) -> None:
        given, console = run.given, run.console
        self._paths = given.paths
        self._given = given
        self._is_json = given.output == "jsonl"
        self._console = console
        self._images: ClusterImages | None = None
        self.status = run.status
        self._run = run

    def what_if(self, questions: Sequence[WhatIf], now: int | None) -> None:
        """Answers in the order of the questions; folds look at the logs in one pass."""
        from kdump.kafka.retention import Retention
        from kdump.stats.whatif.codec import CodecQuestion
        from kdump.stats.whatif.magic import MagicQuestion
        from kdump.stats.whatif.run import WhatIfFold, WhatIfRun

        now = int(time.time() * 1000) if now is None else now
        logs = self._run.partition_entries(with_worlds=True)
        what_if_run = WhatIfRun(logs, self.status.fail, RELEASES[self._given.broker_version])
        kinds: dict[str, Callable[[], WhatIfFold]] = {"codec": CodecQuestion, "magic": MagicQuestion}
        folds = {asked.question: kinds[asked.question]() for asked in questions if asked.question in kinds}
        if folds and logs.partitions:
            what_if_run.fold(list(folds.values()))
        for asked in dict.fromkeys(questions if logs.partitions else ()):
            if asked.question in folds:
                self._show(folds[asked.question].answer())
            elif asked.question == "compaction":
                self._show(what_if_run.compaction(now, self._settings))
            else:
                limits = partial(self._limits, Retention(asked.milliseconds, asked.size))
                self._show(what_if_run.retention(limits, now))

    def _limits(self, given: Retention, partition: Partition) -> Retention:
        """The limits that were given, else those of the partition's topic by the metadata of the cluster.

        Raises UsageError without both.
        """
        from kdump.kafka.remotesegments import remote_ranges

        settings, topic = self._settings(partition), partition.logs[0].context.topic or ""
        remote = remote_ranges(partition.directory)
        if settings.is_tiered(topic) if settings is not None else bool(remote):
            given = given._replace(remote_end=max((one.last_offset for one in remote), default=-1))
        if given.milliseconds is not None or given.size is not None:
            return given
        if settings is None:
            message = "--what-if retention needs limits (retention=7d,10GB), or the metadata of the cluster"
            raise click.UsageError(f"{message}: there is none beside {partition.name}")
        return settings.retention(topic)._replace(remote_end=given.remote_end)

    def _settings(self, partition: Partition) -> TopicSettings | None:
        """The settings of the cluster that a partition belongs to; None where its metadata is not there."""
        from kdump.kafka.image.copies import read_properties
        from kdump.kafka.image.topicsettings import TopicSettings
        from kdump.verify.fates import ClusterImages

        place = os.path.dirname(partition.directory)
        if self._images is None:
            self._images = ClusterImages([*self._paths, place], self.status.fail)
        known = read_properties(place)
        image = None if known is None or known.cluster_id is None else self._images.of(known.cluster_id)
        return None if image is None or known is None else TopicSettings(image, known.node_id)

    def _show(self, answer: Answer) -> None:
        from kdump.stats.whatif.answer import answer_json, answer_text

        console = self._console
        self._run.write(
            answer_json(answer) if self._is_json else answer_text(answer, width=console.width, color=console.color)
        )
