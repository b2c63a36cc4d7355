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
    from kdump.stats.whatif.answer import Answer
    from kdump.stats.whatif.retention import PartitionLimits
    from kdump.verify.fates import ClusterImages
    from kdump.verify.partitionentries import Partition, PartitionEntries


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
        from kdump.stats.whatif.codec import CodecQuestion
        from kdump.stats.whatif.magic import MagicQuestion
        from kdump.stats.whatif.run import WhatIfFold, WhatIfRun

        now = int(time.time() * 1000) if now is None else now
        logs = self._run.partition_entries(with_worlds=True)
        release = RELEASES[self._given.broker_version]
        what_if_run = WhatIfRun(logs, self.status.fail, release)
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
                of_brokers = WhatIfRun(self._of_brokers(logs), self.status.fail, release)
                self._show(of_brokers.retention(partial(self._limits, asked), now))
        for doubt in self._images.doubts if self._images else ():
            self._console.note(doubt)

    def _of_brokers(self, logs: PartitionEntries) -> PartitionEntries:
        """The logs without those of buckets: of what --tier joins, the files of the broker."""
        from kdump.inputs import resolve
        from kdump.log.tiers import apart
        from kdump.verify.partitionentries import PartitionEntries
        from kdump.worlds import world_of_store

        given = self._given.inputs
        own = [one if world_of_store(one.path) is None else resolve(next(iter(apart(one.path)))) for one in given]
        if own == list(given):
            return logs
        return PartitionEntries(own, on_error=self.status.fail, with_worlds=True)

    def _limits(self, asked: WhatIf, partition: Partition) -> PartitionLimits:
        """The limits that were given, else those of the partition's topic by the metadata of the cluster.

        Raises UsageError without both.
        """
        from kdump.kafka.remotesegments import remote_part
        from kdump.kafka.retention import Retention
        from kdump.stats.whatif.retention import PartitionLimits

        settings, topic = self._settings(partition), partition.logs[0].context.topic or ""
        whole, local = Retention(asked.milliseconds, asked.size), Retention(asked.local_milliseconds, asked.local_size)
        if whole == Retention() and settings is not None:
            whole = settings.retention(topic)
        elif whole == local == Retention():
            message = "--what-if retention needs limits (retention=7d,10GB), or the metadata of the cluster"
            raise click.UsageError(f"{message}: there is none beside {partition.name}")
        remote = remote_part(partition.directory)
        if not (remote.by_id if settings is None else settings.has_remote_storage(topic)):
            return PartitionLimits(whole)
        if settings is not None and not settings.is_copied(topic):
            return PartitionLimits(whole, remote=remote)
        if local == Retention():
            local = whole if settings is None else settings.local_retention(topic, whole)
        return PartitionLimits(whole, local, remote)

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
