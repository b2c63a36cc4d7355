"""``kdump serve``: logs for every Kafka client, read-only."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Final

from kdump.cli.command import Run, command
from kdump.cli.options.serve import ServeArguments
from kdump.cli.report_files import check_report_place
from kdump.codes import Codes, KdumpError
from kdump.system.files import whole_file

_REPORT_BEGINS: Final = b'{"type":"finding"'
_MOST_PASSWORD: Final = 1 << 16


@command(
    ServeArguments,
    most_used="--listen --ready-file --until --until-offset --group-offsets --topic --report",
    examples="""\
  kdump serve /var/lib/kafka                  a dead broker's log directory on 127.0.0.1:9092
  kdump serve orders-0 --listen 127.0.0.1:0 --ready-file at.txt
                                              one partition, on a free port, told in a file
  kdump serve DIR --until 2026-03-01T12:00    as it was at a time""",
)
def serve(run: Run[ServeArguments]) -> None:
    """Serve logs to every Kafka client, read-only, as a broker would that leads them.

    PATHs are partition directories, log directories and .log files. Ctrl-C ends it.
    """
    try:
        _serve(run)
    except KdumpError as error:
        # Why nothing is there was said already.
        if error.code is not Codes.NO_SEGMENTS or not run.status.unreadable:
            run.status.fail(error)


def _serve(run: Run[ServeArguments]) -> None:
    """Serve until an interrupt. Raises KdumpError."""
    from kdump.serve.run import ServeOptions, Service, tls_context

    given = run.given
    tls: ssl.SSLContext | None = None
    if given.tls_cert is not None and given.tls_key is not None:
        tls = tls_context(given.tls_cert, given.tls_key)
    users: Mapping[str, str] = {user: _password(file) for user, file in given.sasl}
    if given.report is not None:
        check_report_place(given.report, _REPORT_BEGINS)
    host, port = given.listen
    options = ServeOptions(
        host,
        port,
        tls,
        users or None,
        dict(given.until_offsets),
        given.until,
        given.group_offsets != "none",
        given.report,
    )
    service = Service(run.find_inputs(), options, run.status.fail, run.console.note)
    try:
        topics = service.view.topics.values()
        count = sum(len(topic.partitions) for topic in topics)
        run.console.note(f"{count:,} partitions of {len(topics):,} topics on {service.address}; Ctrl-C ends it")
        if given.ready_file is not None:
            _write_ready(given.ready_file, service.address)
        service.run()
    finally:
        service.close()


def _password(path: str) -> str:
    """The first line of a file. Raises KdumpError."""
    try:
        with open(path, encoding="utf-8") as file:
            password = file.readline(_MOST_PASSWORD).rstrip("\r\n")
    except (OSError, UnicodeError) as error:
        raise KdumpError(Codes.UNREADABLE, str(getattr(error, "strerror", None) or error), path=path) from None
    if not password:
        raise KdumpError(Codes.UNREADABLE, "its first line, the password, is empty", path=path)
    return password


def _write_ready(path: str, address: str) -> None:
    """Raises KdumpError UNWRITABLE."""
    check_report_place(path, b"")
    try:
        with whole_file(os.path.realpath(path)) as file:
            file.write(f"{address}\n".encode())
    except OSError as error:
        raise KdumpError(Codes.UNWRITABLE, error.strerror or str(error), path=path) from error
