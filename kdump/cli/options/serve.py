"""Options of ``kdump serve``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import ClassVar

from kdump.cli.conflicts import Conflict
from kdump.cli.options.declaring import PATH, OptionGroup, argument, option
from kdump.cli.options.shared import ReadingArguments, TierArguments, TopicArguments
from kdump.cli.params import LISTEN, MOMENT, UNTIL_OFFSET, USER


class ServeArguments(TierArguments, TopicArguments, ReadingArguments):
    """Options of ``kdump serve``. Times are ms since 1970."""

    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            "an address that others can reach",
            needs=("--insecure", "--sasl"),
            message="others can reach that address: --tls-cert, --tls-key and --sasl go with it, or --insecure",
        ),
        Conflict(
            "an address that others can reach",
            needs=("--insecure", "--tls-cert"),
            message="others can reach that address: --tls-cert, --tls-key and --sasl go with it, or --insecure",
        ),
    )

    paths: tuple[str, ...] = argument("PATH...", many=True, required=True, type=PATH)
    until: int | None = option(
        OptionGroup.CHOICE,
        "--until TIME",
        "Serve what was there before this time: ms since 1970, ISO 8601, -1h or now.",
        """
        Serve what was there before a time. The view of each partition ends before its first batch with a timestamp at
        *TIME* or later, whatever follows. Transactions that were open there are open in the view, and groups have the
        offsets that they had committed until then. *TIME* is ms since 1970, ISO 8601 (UTC unless it says otherwise),
        `-1h` or `now`.
        """,
        type=MOMENT,
        excludes=("--until-offset",),
    )
    until_offsets: tuple[tuple[tuple[str, int], int], ...] = option(
        OptionGroup.CHOICE,
        "--until-offset TOPIC-N=OFFSET",
        "End the view of a partition before the batch with this offset; may be repeated.",
        """
        End the view of a partition before the batch that holds an offset: `orders-0=1000`. A batch is served whole or
        not at all. May be repeated.
        """,
        type=UNTIL_OFFSET,
        multiple=True,
    )
    group_offsets: str = option(
        OptionGroup.KNOWN,
        "--group-offsets",
        "Whether groups begin with the offsets in __consumer_offsets.",
        """
        `from-logs` (the default): groups have the offsets that they committed, where *__consumer_offsets* is among the
        partitions that are served. `none`: no group has any. What groups commit now is kept in memory only.
        """,
        type=("from-logs", "none"),
        default="from-logs",
    )
    listen: tuple[str, int] = option(
        OptionGroup.SERVER,
        "--listen HOST:PORT",
        "Where clients connect; port 0 takes a free one.",
        """
        Where clients connect. The default is `127.0.0.1:9092`, which nobody reaches from another machine. Port 0 takes
        a free one. Another address than one of this machine's loopback needs --tls-cert, --tls-key and --sasl, or
        --insecure. Clients are told the address by which they came.
        """,
        type=LISTEN,
        default="127.0.0.1:9092",
    )
    ready_file: str | None = option(
        OptionGroup.SERVER,
        "--ready-file FILE",
        "Write HOST:PORT into this file once it listens.",
        "Write *HOST*:*PORT* into this file once it listens. The file appears when it is whole.",
        type=PATH,
    )
    tls_cert: str | None = option(
        OptionGroup.SERVER,
        "--tls-cert FILE",
        "Serve with TLS: the certificate chain, PEM.",
        "Serve with TLS. The file has the certificate of the server and its chain, PEM.",
        type=PATH,
        needs=("--tls-key",),
    )
    tls_key: str | None = option(
        OptionGroup.SERVER,
        "--tls-key FILE",
        "The key of --tls-cert, PEM.",
        "The private key of --tls-cert, PEM, without a passphrase.",
        type=PATH,
        needs=("--tls-cert",),
    )
    sasl: tuple[tuple[str, str], ...] = option(
        OptionGroup.SERVER,
        "--sasl USER:PASSWORDFILE",
        "Let only users in who know the password in the first line of the file (SASL PLAIN); may be repeated.",
        """
        Let only users in who know a password: the first line of *PASSWORDFILE*. The mechanism is SASL `PLAIN`. May be
        repeated.
        """,
        type=USER,
        multiple=True,
    )
    insecure: bool = option(
        OptionGroup.SERVER,
        "--insecure",
        "Listen on an address that others can reach, without TLS and passwords.",
        "Listen on an address that others can reach, without TLS and passwords. Everybody who reaches it reads all.",
    )
    report: str | None = option(
        OptionGroup.OUTPUT,
        "--report FILE",
        "Write damage that is met into this file, as JSON lines.",
        """
        Write damage that is met into this file, as JSON lines with the columns of findings in kdump-dump(1). Logs are
        read when a client asks for them, so that damage is met then.
        """,
        type=PATH,
    )

    def facts(self) -> Mapping[str, str | bool | None]:
        """Whether strangers could connect."""
        return {"an address that others can reach": not _is_loopback(self.listen[0])}


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return False
