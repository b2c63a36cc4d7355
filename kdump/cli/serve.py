"""``kdump serve``: logs for every Kafka client, read-only."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Final

import click

from kdump.cli.arguments import ServeArguments
from kdump.cli.common import begin, common_options, reading_options, topic_option
from kdump.cli.console import Console
from kdump.cli.exit_status import RunStatus
from kdump.cli.html_page import write_file
from kdump.cli.options import Command, OptionGroup, option
from kdump.cli.params import Moment
from kdump.cli.report_place import check_report_place
from kdump.codes import Codes, KdumpError
from kdump.inputs import inputs_of
from kdump.log.names import parse_partition_directory

_REPORT_BEGINS: Final = b'{"type":"finding"'
_ADDRESS: Final = re.compile(r"(\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d{1,5})")
_MOST_PASSWORD: Final = 1 << 16


class ListenParam(click.ParamType[tuple[str, int]]):
    """``HOST:PORT``; ``[::1]:9092`` for IPv6. Port 0 takes a free one."""

    name = "HOST:PORT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Usage error for anything else."""
        match = _ADDRESS.fullmatch(str(value))
        if match is None or int(match["port"]) > 0xFFFF:
            self.fail(f"'{value}' is not HOST:PORT", param, ctx)
        return match["six"] or match["host"], int(match["port"])


class UntilOffsetParam(click.ParamType[tuple[tuple[str, int], int]]):
    """``TOPIC-N=OFFSET``."""

    name = "TOPIC-N=OFFSET"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[str, int], int]:
        """Usage error for anything else."""
        name, _, offset = str(value).rpartition("=")
        partition = parse_partition_directory(name)
        if partition is None or not re.fullmatch(r"\d{1,18}", offset):
            self.fail(f"'{value}' is not TOPIC-N=OFFSET, such as orders-0=1000", param, ctx)
        return partition, int(offset)


class UserParam(click.ParamType[tuple[str, str]]):
    """``USER:PASSWORDFILE``."""

    name = "USER:PASSWORDFILE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Usage error for anything else."""
        user, _, file = str(value).partition(":")
        if not user or not file:
            self.fail(f"'{value}' is not USER:PASSWORDFILE", param, ctx)
        return user, file


@click.command(
    cls=Command,
    epilog="""\b
Examples:
  kdump serve /var/lib/kafka              a dead broker's log directory on 127.0.0.1:9092
  kdump serve orders-0 --listen 127.0.0.1:0 --ready-file at.txt
                                          one partition, on a free port, told in a file
  kdump serve DIR --until 2026-03-01T12:00    as it was at a time""",
)
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@topic_option
@option(
    OptionGroup.CHOICE,
    "--until",
    type=Moment(),
    metavar="TIME",
    help="Serve what was there before this time: ms since 1970, ISO 8601, -1h or now.",
)
@option(
    OptionGroup.CHOICE,
    "--until-offset",
    "until_offsets",
    type=UntilOffsetParam(),
    multiple=True,
    help="End the view of a partition before the batch with this offset; may be repeated.",
)
@option(
    OptionGroup.KNOWN,
    "--group-offsets",
    type=click.Choice(["from-logs", "none"]),
    default="from-logs",
    help="The offsets with which groups begin: those in __consumer_offsets, or none.",
)
@option(
    OptionGroup.SERVER,
    "--listen",
    type=ListenParam(),
    default="127.0.0.1:9092",
    help="Where clients connect; port 0 takes a free one.",
)
@option(OptionGroup.SERVER, "--ready-file", metavar="FILE", help="Write HOST:PORT into this file once it listens.")
@option(OptionGroup.SERVER, "--tls-cert", metavar="FILE", help="Serve with TLS: the certificate chain, PEM.")
@option(OptionGroup.SERVER, "--tls-key", metavar="FILE", help="The key of --tls-cert, PEM.")
@option(
    OptionGroup.SERVER,
    "--sasl",
    type=UserParam(),
    multiple=True,
    help="Let only users in who know the password in the first line of the file (SASL PLAIN); may be repeated.",
)
@option(
    OptionGroup.SERVER,
    "--insecure",
    is_flag=True,
    help="Listen on another address than this machine's own without TLS and passwords.",
)
@option(OptionGroup.OUTPUT, "--report", metavar="FILE", help="Write damage that is met into this file, as JSON lines.")
@reading_options
@common_options
def serve(**given: Any) -> int:
    """Serve logs to every Kafka client, read-only, as a broker would that leads them.

    PATHs are partition directories, log directories and .log files. Ctrl-C ends it.
    """
    arguments = ServeArguments(given)
    _check(arguments)
    console = Console(show_traceback=arguments.traceback)
    begin(arguments, console)
    status = RunStatus(console.show_error)
    try:
        _serve(arguments, console, status)
    except KdumpError as error:
        # Why nothing is there was said already.
        if error.code is not Codes.NO_SEGMENTS or not status.unreadable:
            status.fail(error)
    return status.code


def _serve(arguments: ServeArguments, console: Console, status: RunStatus) -> None:
    """Serve until an interrupt. Raises KdumpError."""
    from kdump.serve.run import ServeOptions, Service, tls_context
    from kdump.serve.server import Safety

    tls: ssl.SSLContext | None = None
    if arguments.tls_cert is not None and arguments.tls_key is not None:
        tls = tls_context(arguments.tls_cert, arguments.tls_key)
    users: Mapping[str, str] = {user: _password(file) for user, file in arguments.sasl}
    if arguments.report is not None:
        check_report_place(arguments.report, _REPORT_BEGINS)
    inputs = inputs_of(arguments.paths, status.fail, topics=arguments.topics)
    host, port = arguments.listen
    options = ServeOptions(
        host,
        port,
        Safety(tls, users or None),
        dict(arguments.until_offsets),
        arguments.until,
        arguments.group_offsets != "none",
        arguments.report,
    )
    service = Service(inputs, options, status.fail, console.note)
    try:
        topics = service.view.topics.values()
        count = sum(len(topic.partitions) for topic in topics)
        console.note(f"{count:,} partitions of {len(topics):,} topics on {service.address}; Ctrl-C ends it")
        if arguments.ready_file is not None:
            _write_ready(arguments.ready_file, service.address)
        service.run()
    finally:
        service.close()


def _check(arguments: ServeArguments) -> None:
    """Raises click.UsageError for options that do not go together, and for an address that strangers could reach."""
    if (arguments.tls_cert is None) != (arguments.tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key go together")
    if arguments.until is not None and arguments.until_offsets:
        raise click.UsageError("--until does not go with --until-offset")
    is_safe = arguments.insecure or (arguments.tls_cert is not None and arguments.sasl)
    host = arguments.listen[0]
    if not is_safe and not _is_loopback(host):
        message = f"--listen {host}: others can reach it; it needs --tls-cert, --tls-key and --sasl, or --insecure"
        raise click.UsageError(message)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return False


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
        write_file(os.path.realpath(path), f"{address}\n".encode(), is_stream=False)
    except OSError as error:
        raise KdumpError(Codes.UNWRITABLE, error.strerror or str(error), path=path) from error
