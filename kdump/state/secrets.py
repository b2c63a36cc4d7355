"""What of the metadata is secret, and is not shown unless it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kdump.payloads.secretconfigs import REDACTED, is_secret_config

_SECRET_MEMBERS: Final = {
    "UserScramCredentialRecord": ("salt", "storedKey", "serverKey"),
    "DelegationTokenRecord": ("tokenId",),
    "RemoveDelegationTokenRecord": ("tokenId",),
}
"""Members by the type of record."""


def redacted(record: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a record without its secrets."""
    shown = dict(values)
    for name in _SECRET_MEMBERS.get(record, ()):
        if name in shown:
            shown[name] = REDACTED
    if record == "ConfigRecord" and shown["value"] is not None and is_secret_config(shown["name"]):
        shown["value"] = REDACTED
    return shown
