"""The parts of a URI: what names a store and a place in it, and what is secret."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, unquote

_PATTERN: Final = (
    r"(?P<scheme>[^:]+)://(?:(?P<user>{user})@)?(?P<host>[^/?#@]*)(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#.*)?"
)
# A secret key often holds a slash. Only S3, where hosts are buckets, has no ports.
_PARTS: Final = re.compile(_PATTERN.format(user=r"[^/?#@:]*(?::(?!\d+/)[^?#@]*)?"), re.DOTALL)
_S3_PARTS: Final = re.compile(_PATTERN.format(user=r"[^/?#@:]*(?::[^?#@]*)?"), re.DOTALL)
_SPELLINGS: Final = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's schemes, by the scheme that pyarrow has for the same store."""
_S3: Final = frozenset({"s3", *_SPELLINGS})
_NAMED_BY_USER: Final = frozenset({"hdfs", "viewfs", "abfs", "abfss"})
"""Schemes where the user (of Azure: the container or the account) is a part of the name, and no key."""
_PUBLIC: Final = frozenset({"region", "scheme", "endpoint_override"})
"""Parameters of a query whose values may be shown."""
_LEGAL: Final = ":@!$&'()*+,;=-._~"
"""Characters of a path that are not encoded, besides letters and digits."""
_SHORTEST_SECRET: Final = 3
_HIDDEN: Final = "***"


@dataclass(frozen=True, slots=True)
class Uri:
    """``scheme://user@host/path?query``.

    ``root`` names the store: scheme and host, without credentials. ``path`` is percent-encoded, '' or a slash and no
    slash at its end.
    """

    scheme: str
    user: str
    host: str
    path: str
    query: str

    @property
    def root(self) -> str:
        """The beginning of all URIs of the store, without credentials."""
        name = self._naming_user
        return f"{self.scheme}://{name}@{self.host}" if name else f"{self.scheme}://{self.host}"

    @property
    def clean(self) -> str:
        """The URI without credentials and query."""
        return self.root + self.path

    @property
    def lacks_bucket(self) -> bool:
        """It is one of S3 without a bucket, which means all buckets of an account."""
        return self.scheme.lower() in _S3 and not self.host

    @property
    def options(self) -> tuple[str, str]:
        """Everything that does not name the store."""
        return self.user, self.query

    @property
    def has_options(self) -> bool:
        """It has more than ``clean``: credentials or a query."""
        return self.options != (self._naming_user, "")

    @property
    def _naming_user(self) -> str:
        """The part of ``user`` that is no key, but a part of the store's name."""
        return self.user.partition(":")[0] if self.scheme in _NAMED_BY_USER else ""

    def with_path(self, path: str) -> str:
        """The URI of another path in the store, with all options."""
        user = _quoted(self.user, "%:") + "@" if self.user else ""
        return f"{self.scheme}://{user}{self.host}{path}" + (f"?{self.query}" if self.query else "")

    def for_pyarrow(self, path: str) -> str:
        """The URI with the scheme that pyarrow knows."""
        return replace(self, scheme=_SPELLINGS.get(self.scheme, self.scheme)).with_path(path)

    def scrubbed(self, text: str) -> str:
        """``text`` without anything that the URI keeps secret."""
        for whole in (self.with_path(self.path), self.for_pyarrow(self.path)):
            text = text.replace(whole, self.clean)
        secrets = {self.user, *self.user.split(":")} - {self._naming_user}
        secrets |= {value for name, _, value in self._parameters() if name not in _PUBLIC}
        spellings = {spelling for secret in secrets for spelling in (secret, _quoted(secret, "%"), unquote(secret))}
        for secret in sorted(spellings, key=len, reverse=True):
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, _HIDDEN)
        return text

    def _parameters(self) -> list[tuple[str, str, str]]:
        return [parameter.partition("=") for parameter in self.query.split("&")]


def encoded(name: str) -> str:
    """A file's name as a part of a URI's path."""
    return _quoted(name, _LEGAL)


def _quoted(text: str, safe: str) -> str:
    """Percent-encoded, also bytes of a command line that are no UTF-8."""
    return quote(text, safe=safe, errors="surrogateescape")


def parse_uri(text: str) -> Uri:
    """The parts of any text with a scheme and ``://``. The store finds out what is wrong with the rest."""
    scheme = text.partition("://")[0].lower()
    match = (_S3_PARTS if scheme in _S3 else _PARTS).fullmatch(text)
    assert match is not None
    path = _quoted(match["path"], f"/%{_LEGAL}").rstrip("/")
    return Uri(scheme, match["user"] or "", match["host"], path, match["query"] or "")
