"""The server: connections, requests one after the other on each, and what bounds all of it.

A thread serves a connection, so that a slow client makes nobody wait. Source for the order: a broker's SocketServer
reads the next request of a connection after the response to the one before.
"""

from __future__ import annotations

import hmac
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from kdump.codes import Codes, KdumpError, OnError
from kdump.serve.cluster import REFUSED, Address, Cluster, refused
from kdump.serve.groupanswers import GroupAnswers
from kdump.serve.groups import GroupCoordinator, KnownGroup
from kdump.serve.reading import Reading, Sent
from kdump.serve.view import View
from kdump.serve.wire import (
    API_VERSIONS,
    Error,
    Request,
    RequestError,
    UnsupportedVersionError,
    apis,
    read_request,
    write_response,
)
from kdump.wire.checksum import Buffer

_MOST_CONNECTIONS: Final = 1000
_DESCRIPTORS: Final = 4096
_SPARE_DESCRIPTORS: Final = 64
_LARGEST_REQUEST: Final = 1 << 20
_LARGEST_BEFORE_LOGIN: Final = 1 << 16
_MOST_WAITING: Final = 32 << 20
"""Bytes of requests that are being read, of all clients."""
_IDLE: Final = 600.0
"""Seconds without a request (connections.max.idle.ms)."""
_SLOW: Final = 60.0
"""Seconds for the rest of a request, for a response, for TLS and for the login."""
_PIECE: Final = 1 << 18
_MECHANISM: Final = "PLAIN"
_STACK: Final = 1 << 19
_AT_A_TIME: Final = 8
"""Requests that are worked on at the same time. Those that wait for others, or for time to pass, do not count."""
_WAITING: Final = frozenset({"JoinGroup", "SyncGroup"})
"""Requests that wait for other members of a group."""


class _ClosedError(Exception):
    """The connection is over."""


class KafkaServer:
    """Serves a view.

    Args:
        view: the topics.
        load: gives the groups in the logs.
        on_error: takes what cannot be read; may be called by several threads.
        tls: what keeps strangers away; None: plain connections.
        users: passwords by name; None: no login.
    """

    def __init__(
        self,
        view: View,
        load: Callable[[], Mapping[str, KnownGroup]],
        on_error: OnError,
        *,
        tls: ssl.SSLContext | None,
        users: Mapping[str, str] | None,
    ) -> None:
        self._tls = tls
        self._users = users
        self._on_error = on_error
        self._cluster = Cluster(view)
        self._reading = Reading(view, on_error)
        self._groups = GroupCoordinator(load)
        self._group_answers = GroupAnswers(view, self._groups)
        self._listener: socket.socket | None = None
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._waiting = 0
        self._is_closed = False
        self.working = threading.BoundedSemaphore(_AT_A_TIME)

    def listen(self, host: str, port: int) -> Address:
        """Begin to listen; port 0 takes a free one. Returns where. Raises OSError."""
        self._most = _raise_descriptors() - _SPARE_DESCRIPTORS
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        self._listener = socket.create_server((host, port), family=family, backlog=128)
        return Address(host, self._listener.getsockname()[1])

    def serve(self) -> None:
        """Take connections until ``close``."""
        assert self._listener is not None, "it listens"
        threading.stack_size(_STACK)
        while not self._is_closed:
            try:
                connection, peer = self._listener.accept()
            except OSError:
                if self._is_closed:
                    return
                time.sleep(0.05)
                continue
            with self._lock:
                is_full = len(self._connections) >= min(_MOST_CONNECTIONS, self._most)
                if not is_full:
                    self._connections.add(connection)
            if is_full:
                connection.close()
                continue
            try:
                threading.Thread(target=self._serve, args=(connection, peer[0]), daemon=True).start()
            except RuntimeError:
                self._forget(connection)

    def close(self) -> None:
        """Stop listening, and close all connections."""
        self._is_closed = True
        with self._lock:
            open_ones = [*self._connections, *([] if self._listener is None else [self._listener])]
        for one in open_ones:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            with suppress(OSError):
                one.close()

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.discard(connection)
        with suppress(OSError):
            connection.close()

    def _serve(self, plain: socket.socket, host: str) -> None:
        """Serve a connection until it ends."""
        connection = plain
        # What a client sent, or that it left, is no concern of the others; nor is a request that nobody foresaw.
        with suppress(OSError, ValueError, _ClosedError, RequestError):
            plain.settimeout(_SLOW)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(plain, server_side=True)
            try:
                _Session(self, connection, host, self._users).run()
            except (OSError, _ClosedError, RequestError):
                raise
            except Exception as error:
                what = f"internal error: {type(error).__name__}: {error}; the connection of {host} is closed"
                self._on_error(KdumpError(Codes.UNREADABLE, what))
        with suppress(OSError):
            connection.close()
        self._forget(plain)

    def reserve(self, size: int) -> bool:
        """Whether a request of this size may be read now."""
        with self._lock:
            if self._waiting + size > _MOST_WAITING:
                return False
            self._waiting += size
            return True

    def release(self, size: int) -> None:
        """A request has been read and answered."""
        with self._lock:
            self._waiting -= size

    def answer(self, request: Request, address: Address, sent: Sent) -> dict[str, Any] | None:
        """The response to a request; None: there is none, and the connection ends."""
        name = request.api.name
        if name in REFUSED:
            is_silent = name == "Produce" and request.values["acks"] == 0
            return None if is_silent else refused(request)
        match name:
            case "Fetch":
                return self._reading.fetch(request, sent)
            case "Metadata":
                return self._cluster.metadata(request, address)
            case "FindCoordinator":
                return self._cluster.coordinator(request, address)
            case "DescribeCluster":
                return self._cluster.describe_cluster(request, address)
            case "Heartbeat":
                return {"errorCode": self._groups.heartbeat(request)}
        return self._handlers[name](request)

    @property
    def _handlers(self) -> Mapping[str, Callable[[Request], dict[str, Any]]]:
        return {
            "ApiVersions": lambda request: self._cluster.versions(),
            "ListOffsets": self._reading.list_offsets,
            "OffsetForLeaderEpoch": self._reading.epochs,
            "DescribeTopicPartitions": self._cluster.topic_partitions,
            "DescribeConfigs": self._cluster.configs,
            "DescribeLogDirs": self._cluster.log_dirs,
            "OffsetCommit": self._group_answers.commit,
            "OffsetFetch": self._group_answers.offsets,
            "DescribeGroups": self._group_answers.described,
            "ListGroups": self._group_answers.listed,
            "JoinGroup": self._groups.join,
            "SyncGroup": self._groups.sync,
            "LeaveGroup": self._groups.leave,
        }

    def versions(self, error: Error) -> dict[str, Any]:
        """The versions that are known, with an error."""
        return self._cluster.versions(error)


class _Session:
    """One connection. Its ``users``: None: nobody logs in."""

    def __init__(
        self, server: KafkaServer, connection: socket.socket, host: str, users: Mapping[str, str] | None
    ) -> None:
        self._server = server
        self._connection = connection
        self._host = host
        self._users = users
        self._is_known = users is None
        self._has_shaken_hands = False
        self._began = time.monotonic()
        own = connection.getsockname()
        self._address = Address(own[0], own[1])

    def run(self) -> None:
        """Answer requests until the connection ends. Raises _ClosedError, RequestError or OSError."""
        while True:
            size = int.from_bytes(self._receive(4, _IDLE if self._is_known else self._login_time()), "big", signed=True)
            if not 0 < size <= (_LARGEST_REQUEST if self._is_known else _LARGEST_BEFORE_LOGIN):
                raise _ClosedError
            if not self._server.reserve(size):
                raise _ClosedError
            self._answer(size)

    def _answer(self, size: int) -> None:
        """Answer a request of this size. Nothing of the response stays while the next request is waited for."""
        with Sent() as sent:
            sent.callback(self._server.release, size)
            parts = self._respond(self._receive(size, _SLOW if self._is_known else self._login_time()), sent)
            sent.wait()
            self._send(parts)

    def _respond(self, data: bytes, sent: Sent) -> Sequence[Buffer]:
        """The response to a request. A few are worked on at a time, so that what they take of the memory is bounded."""
        with self._server.working:
            try:
                request = read_request(data, self._host)
            except UnsupportedVersionError as error:
                key, _, correlation_id = error.head
                if key != API_VERSIONS:
                    raise
                return write_response(apis()[key], 0, correlation_id, self._server.versions(Error.UNSUPPORTED_VERSION))
            values = self._logged_in(request)
            if values is None and request.api.name not in _WAITING:
                values = self._server.answer(request, self._address, sent)
            if values is not None:
                return write_response(request.api, request.version, request.correlation_id, values)
        if request.api.name not in _WAITING:
            raise _ClosedError
        values = self._server.answer(request, self._address, sent) or {}
        return write_response(request.api, request.version, request.correlation_id, values)

    def _logged_in(self, request: Request) -> dict[str, Any] | None:
        """The response to a request of the login; None: it is another one, which is allowed."""
        name = request.api.name
        if name == "SaslHandshake":
            is_right = self._users is not None and not self._is_known
            self._has_shaken_hands = is_right and request.values["mechanism"] == _MECHANISM
            error = Error.UNSUPPORTED_SASL_MECHANISM if is_right else Error.ILLEGAL_SASL_STATE
            mechanisms = [_MECHANISM] if self._users is not None else []
            return {"errorCode": Error.NONE if self._has_shaken_hands else error, "mechanisms": mechanisms}
        if name == "SaslAuthenticate":
            if not self._has_shaken_hands:
                return {"errorCode": Error.ILLEGAL_SASL_STATE, "errorMessage": "SaslHandshake comes first"}
            self._has_shaken_hands = False
            self._is_known = self._is_password(request.values["authBytes"])
            if self._is_known:
                return {"errorMessage": None}
            return {"errorCode": Error.SASL_AUTHENTICATION_FAILED, "errorMessage": "wrong user or password"}
        if not self._is_known and name != "ApiVersions":
            raise _ClosedError
        return None

    def _is_password(self, data: bytes) -> bool:
        """Whether the bytes of SASL/PLAIN (RFC 4616) name a user and the right password."""
        parts = data.split(b"\0")
        if len(parts) != 3 or self._users is None:  # authorization id, user, password
            return False
        wanted = self._users.get(parts[1].decode("utf-8", "replace"))
        # As long for a user that is not there.
        is_same = hmac.compare_digest(parts[2], (wanted or "").encode())
        return is_same and wanted is not None

    def _login_time(self) -> float:
        left = self._began + _SLOW - time.monotonic()
        if left <= 0:
            raise _ClosedError
        return left

    def _receive(self, size: int, seconds: float) -> bytes:
        """The next bytes; _ClosedError when they do not come in time."""
        until = time.monotonic() + seconds
        parts = bytearray()
        while len(parts) < size:
            left = until - time.monotonic()
            if left <= 0:
                raise _ClosedError
            self._connection.settimeout(left)
            part = self._connection.recv(min(size - len(parts), _PIECE))
            if not part:
                raise _ClosedError
            parts += part
        return bytes(parts)

    def _send(self, parts: Sequence[Buffer]) -> None:
        """Send a response; _ClosedError when the client does not take it in time."""
        until = time.monotonic() + _SLOW
        for part in parts:
            data = memoryview(part)
            for start in range(0, len(data), _PIECE):
                left = until - time.monotonic()
                if left <= 0:
                    raise _ClosedError
                self._connection.settimeout(left)
                self._connection.sendall(data[start : start + _PIECE])


def _raise_descriptors() -> int:
    """Let the process open as many files as it may, up to a bound; returns how many."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            return most
    return most if soft == resource.RLIM_INFINITY else max(soft, most)
