"""A server over some paths: what it is made of, and how it begins and ends."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, TextIO

from kdump.codes import Codes, Finding, KdumpError, OnError
from kdump.inputs import Input, inputs_of
from kdump.serve.groupanswers import groups_in_logs
from kdump.serve.groups import KnownGroup
from kdump.serve.server import KafkaServer
from kdump.serve.view import View
from kdump.verify.report import finding_json

_MOST_ERRORS: Final = 1000
"""Lines about what cannot be read; a client may ask for it again and again."""


@dataclass(frozen=True)
class ServeOptions:
    """What is served, and to whom.

    ``until``: where the view of a partition ends, by topic and partition. ``until_time``: ms since 1970.
    ``tls``: None: plain connections. ``users``: passwords by name; None: no login.
    ``with_group_offsets``: groups begin with the offsets in the logs. ``report``: the file that takes damage as JSON.
    """

    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    users: Mapping[str, str] | None = None
    until: Mapping[tuple[str, int], int] = field(default_factory=dict)
    until_time: int | None = None
    with_group_offsets: bool = True
    report: str | None = None


class Service:
    """A server that listens. ``address``: ``host:port``.

    Args:
        inputs: what is served.
        options: see there.
        on_error: takes what cannot be read, once; may be called by several threads.
        tell: takes lines about damage; the same.

    Raises:
        KdumpError: nothing is there to be served, or the address cannot be taken, or the report cannot be written.
    """

    def __init__(
        self,
        inputs: Iterable[Input],
        options: ServeOptions,
        on_error: OnError,
        tell: Callable[[str], None],
    ) -> None:
        self._on_error = on_error
        self._tell = tell
        self._told: set[str] = set()
        self._report: TextIO | None = None
        self._lock = threading.Lock()
        self.view = View(
            inputs,
            on_error=self._show_error,
            on_damage=self._show_damage,
            until=options.until,
            until_time=options.until_time,
        )
        if not self.view.topics:
            raise KdumpError(Codes.NO_SEGMENTS, "no partition to be served")
        for topic, number in options.until:
            if self.view.partition(topic, number) is None:
                raise KdumpError(Codes.NO_SEGMENTS, f"--until-offset {topic}-{number}: no such partition is served")
        server = KafkaServer(
            self.view,
            self._groups if options.with_group_offsets else dict,
            self._show_error,
            tls=options.tls,
            users=options.users,
        )
        try:
            address = server.listen(options.host, options.port)
        except OSError as error:
            place = f"{options.host}:{options.port}"
            raise KdumpError(Codes.UNWRITABLE, error.strerror or str(error), path=place) from error
        if options.report is not None:
            try:
                self._report = open(options.report, "w", encoding="utf-8")  # noqa: SIM115  # as long as the server
            except OSError as error:
                raise KdumpError(Codes.UNWRITABLE, error.strerror or str(error), path=options.report) from error
        self._server = server
        host = f"[{address.host}]" if ":" in address.host else address.host
        self.address = f"{host}:{address.port}"

    def run(self) -> None:
        """Serve until ``close``, or until an exception ends it."""
        try:
            self._server.serve()
        finally:
            self.close()

    def close(self) -> None:
        """End it."""
        self._server.close()
        with self._lock:
            if self._report is not None:
                self._report.close()
                self._report = None

    def _groups(self) -> Mapping[str, KnownGroup]:
        return groups_in_logs(self.view, self._show_error)

    def _show_error(self, error: KdumpError) -> None:
        text = str(error)
        with self._lock:
            if text in self._told or len(self._told) >= _MOST_ERRORS:
                return
            self._told.add(text)
            self._on_error(error)

    def _show_damage(self, path: str, finding: Finding) -> None:
        with self._lock:
            self._tell(f"{path}: {finding.code.value.code} {finding.skipped}; left out")
            if self._report is not None:
                self._report.write(finding_json(replace(finding, path=path)))
                self._report.flush()


@contextmanager
def serving(*paths: str | os.PathLike[str], until: Mapping[tuple[str, int], int] | None = None) -> Iterator[str]:
    """Serve partitions or log directories to Kafka clients in this block, on a free port of this machine.

    Args:
        paths: partition directories, log directories, and copies of them.
        until: by topic and partition, the offset before which the view of it ends.

    Yields:
        ``host:port``, the bootstrap servers.

    Raises:
        KdumpError: a path cannot be read.
    """
    errors: list[KdumpError] = []
    service = Service(
        inputs_of(paths, errors.append), ServeOptions(until=until or {}), errors.append, lambda line: None
    )
    try:
        if errors:
            raise errors[0]
        threading.Thread(target=service.run, daemon=True).start()
        yield service.address
    finally:
        service.close()


def tls_context(cert: str, key: str) -> ssl.SSLContext:
    """TLS with a certificate and its key, PEM files. Raises KdumpError UNREADABLE."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise KdumpError(
            Codes.UNREADABLE, f"no certificate with its key: {error.strerror or error}", path=cert
        ) from None
    return context
