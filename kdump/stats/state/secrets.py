"""What of the metadata is secret, and is not shown unless it is asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

REDACTED: Final = "[redacted]"
_SECRET_MEMBERS: Final = {
    "UserScramCredentialRecord": ("salt", "storedKey", "serverKey"),
    "DelegationTokenRecord": ("tokenId",),
    "RemoveDelegationTokenRecord": ("tokenId",),
}
"""Members by the type of record."""
_SECRET_CONFIG: Final = re.compile(
    r"(?:.*\.)?(?:password|secret|secret\.key|sasl\.jaas\.config|ssl\.keystore\.key|ssl\.keystore\.certificate\.chain"
    r"|ssl\.truststore\.certificates)"
)
"""Configs whose type is PASSWORD, also with the prefix of a listener."""


def redacted(record: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a record without its secrets."""
    shown = dict(values)
    for name in _SECRET_MEMBERS.get(record, ()):
        if name in shown:
            shown[name] = REDACTED
    if record == "ConfigRecord" and shown["value"] is not None and is_secret_config(shown["name"]):
        shown["value"] = REDACTED
    return shown


def is_secret_config(name: str) -> bool:
    """The value of a config is a password or a key."""
    return _SECRET_CONFIG.fullmatch(name) is not None
