"""``kdump state``: the state of a cluster at a point in time, and what changed in it."""

from __future__ import annotations

from collections.abc import Collection

import click

from kdump.cli.command import Run, command
from kdump.cli.engine import tell_brokers
from kdump.cli.options.state import QUESTIONS, StateArguments
from kdump.cli.params import NOW
from kdump.cli.schemas import schema_partitions, show_schemas, with_schemas
from kdump.cli.staterows import show_rows
from kdump.cli.view_options import check_decoder
from kdump.codes import Codes, KdumpError, ignore_error
from kdump.inputs import fits
from kdump.kafka.image.copies import by_cluster, find_copies
from kdump.kafka.image.replay import StatePoint
from kdump.payloads.choice import DecoderChoice
from kdump.rows.columns import Row
from kdump.state.changes import NO_CHANGE, write_changes
from kdump.state.metadatarows import StateSelection, image_rows
from kdump.state.metadatastate import MetadataState, name_of
from kdump.verify.metadatalog import replay_findings
from kdump.worlds import REMOTE_STORAGE


@command(
    StateArguments,
    most_used="--topic --at --at-offset --between --history --broker --output",
    examples="""\
  kdump state __cluster_metadata-0              what the cluster knows
  kdump state --at -1h __consumer_offsets-*     what was committed an hour ago
  kdump state --history topic=orders __cluster_metadata-0  all changes of a topic
  kdump state --at-zxid 0x1f /var/lib/zookeeper  the tree after a transaction""",
)
def state(run: Run[StateArguments]) -> None:
    """Show what a cluster, its groups and its transactions knew at a time (by default now), or what changed in it.

    Exit status 1 when there is damage.
    """
    given = run.given
    if given.given().first(QUESTIONS) is None:
        given.at = NOW
    run.find_inputs(with_patterns=True)
    tell_brokers(given.paths, run.console)
    if (world := next((found.world for found in given.inputs if found.world is not None), None)) is not None:
        from kdump.cli.worldpaths import show_world

        show_world(run, world)
    elif given.history is not None and given.history.kind == "group":
        raise click.UsageError("--history group=NAME goes with files of ZooKeeper")
    else:
        _show_state(run)


def _show_state(run: Run[StateArguments]) -> None:
    given = run.given
    for name in (given.key_decoder, given.value_decoder):
        if name is not None:
            check_decoder(name)
    shown = _StateRun(run)
    if given.at is None and given.at_offset is None:
        shown.changes()
    else:
        shown.metadata()
    if given.output in ("table", "jsonl") and (given.at is not None or given.at_offset is not None):
        shown.remote_segments()
    shown.schemas()
    if given.at is not None and given.output in ("table", "jsonl", "reset-csv"):
        shown.coordinators(given.at)
        shown.keys(given.at)
    shown.finish()


class _StateRun:
    """Asks, prints, and remembers what was met."""

    def __init__(self, run: Run[StateArguments]) -> None:
        given = self._given = run.given
        self._run = run
        self._console = run.console
        self._is_something_there = False
        self._coordinators: int | None = None
        self._selection = StateSelection(frozenset(given.topics), frozenset(given.brokers), given.show_secrets)
        self.status = run.status
        self._write = run.write

    def metadata(self) -> None:
        """The metadata of each cluster among the paths."""
        given = self._given
        until = StatePoint(given.at_offset, None if given.at in (None, NOW) else given.at)
        for copies in by_cluster(find_copies(given.paths, self.status.fail)):
            self._is_something_there = True
            try:
                state = MetadataState.of(copies, until)
            except KdumpError as error:
                self.status.fail(error)
                continue
            self._coordinators = state.transaction_partitions
            self._show_metadata(state)
            self._note_unknown(state)
            for finding in state.findings:
                self._run.show_finding(finding)

    def changes(self) -> None:
        """What changed in the metadata of each cluster among the paths."""
        from kdump.state.metadatapage import change_line

        given, console = self._given, self._console
        if given.history is not None and given.history.kind == "subject":
            return
        chosen = self._selection if given.history is None else self._selection.of_history(*given.history)
        is_json = given.output == "jsonl"
        is_any = False

        def show(row: Row) -> None:
            nonlocal is_any
            if chosen.has_change(row):
                is_any = True
                if is_json:
                    self._run.write_rows([row])
                else:
                    self._write(change_line(row))

        for copies in by_cluster(find_copies(given.paths, self.status.fail)):
            self._is_something_there = True
            try:
                replayed, note = write_changes(copies, given.between, given.between_offsets, show, given.show_secrets)
            except KdumpError as error:
                self.status.fail(error)
                continue
            if note is not None:
                console.note(note)
            for finding in replay_findings(replayed):
                self._run.show_finding(finding)
        if self._is_something_there and not is_any and not (chosen.is_all and chosen.partition is None):
            console.note(NO_CHANGE)

    def coordinators(self, at: int) -> None:
        """Groups, committed offsets, transactional ids and open transactions of what is among the paths."""
        from kdump.kafka.image.names import TopicNames
        from kdump.state.coordinators import coordinator_rows

        on_error = self._fail_if_missing if self._is_something_there else self.status.fail
        logs = self._run.partition_entries(on_error)
        moment = None if at == NOW else at
        names, count = TopicNames(self._given.paths), self._coordinators
        for kind, rows in coordinator_rows(
            logs, moment, names, count, note=self._console.note, on_error=self.status.fail
        ):
            self._is_something_there = True
            self._show(kind, rows)

    def remote_segments(self) -> None:
        """The remote segments of what is among the paths; an offset is one of the cluster's metadata, if that is."""
        given = self._given
        offset = None if self._is_something_there else given.at_offset
        if offset is None and given.at is None:
            return
        at = None if given.at in (None, NOW) else given.at
        wanted = (lambda topic: fits(topic, given.topics)) if given.topics else (lambda topic: True)
        rows = REMOTE_STORAGE.answer("state").remote_rows(
            given.inputs, self._console.note, at=at, at_offset=offset, is_wanted=wanted
        )
        if rows is not None:
            self._is_something_there = True
            self._show("remoteSegment", rows)

    def schemas(self) -> None:
        """The schemas of each registry whose topic is among the paths, or what changed in it."""
        given = self._given
        offset = None if self._is_something_there else given.at_offset
        if given.output != "reset-csv" and (given.at_offset is None or offset is not None):
            self._is_something_there |= show_schemas(self._run, self._run.partition_entries(ignore_error), offset)

    def keys(self, at: int) -> None:
        """The last value of each key in the partitions that are named, but for those of coordinators and metadata."""
        from kdump.state.coordinators import has_own_state
        from kdump.state.keys import key_rows, named_partitions

        given = self._given
        logs = self._run.partition_entries(ignore_error)
        choice = DecoderChoice(None, given.decode == "auto", given.key_decoder, given.value_decoder)
        decoders = with_schemas(choice, given, None)
        schemas = {partition.directory for partition in schema_partitions(logs)}
        for partition in named_partitions(logs, given.paths):
            if not has_own_state(partition) and partition.directory not in schemas:
                self._is_something_there = True
                rows = key_rows(logs, partition, None if at == NOW else at, decoders, self.status.fail)
                self._show("key", list(rows))

    def _fail_if_missing(self, error: KdumpError) -> None:
        """A path that holds something else has no coordinators; one that is not there is a fault."""
        if error.code is Codes.MISSING:
            self.status.fail(error)

    def _show(self, kind: str, rows: Collection[Row]) -> None:
        show_rows(self._run, kind, rows)

    def finish(self) -> None:
        """Complain where no path holds anything that has a state."""
        if not self._is_something_there and not self.status.unreadable:
            what = "no __cluster_metadata-0 and no schemas"
            if self._given.at is not None:
                topics = "__consumer_offsets, __transaction_state, __share_group_state or __remote_log_metadata"
                what = f"no __cluster_metadata-0, no schemas, and no partition of {topics}"
            elif self._given.at_offset is not None:
                what = "no __cluster_metadata-0, no schemas, and no partition of __remote_log_metadata"
            what += ", by the names of the directories"
            self.status.fail(KdumpError(Codes.NO_SEGMENTS, what, path=self._given.paths[0]))

    def _show_metadata(self, state: MetadataState) -> None:
        if state.image.metadata_version is None:
            note = "the image has no metadata.version: Kafka would write no snapshot of it"
            snapshot = state.replayed.snapshot
            if snapshot is not None and snapshot.is_bootstrap:
                note = f"the records of {snapshot.name} count when a leader has written them into the log"
            self._console.note(f"{state.copy.log.directory}: {note}")
        match self._given.output:
            case "jsonl":
                self._run.write_rows([state.head(), *state.voters()])
                self._run.write_rows(image_rows(state.image, self._selection))
            case "records":
                self._run.write_all(state.records(self._selection))
            case "commands":
                from kdump.state.metadatacommands import metadata_commands

                self._run.write_all(f"{line}\n" for line in metadata_commands(state.image, self._selection))
            case "table":
                from kdump.state.metadatapage import metadata_page

                console = self._console
                self._run.write_all(metadata_page(state, self._selection, width=console.width, color=console.color))

    def _note_unknown(self, state: MetadataState) -> None:
        """A name that is not there may be misspelled."""
        selected, image = self._selection, state.image
        names = image.topics.by_name
        unknown = [f"topic {one}" for one in sorted(selected.topics) if not any(fits(name, (one,)) for name in names)]
        unknown += [f"broker {broker}" for broker in sorted(selected.brokers - image.cluster.brokers.keys())]
        for what in unknown:
            self._console.note(f"{name_of(state)} has no {what} there")
