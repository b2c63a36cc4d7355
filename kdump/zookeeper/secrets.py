"""What of the nodes is secret, and is not shown unless it is asked for.

Source: docs/spec/zookeeper.md#2-kafkas-znodes. ZooKeeper 3.5.9 and later hide the hashes of ACLs from clients too.
"""

from __future__ import annotations

import json
from typing import Any, Final

from kdump.payloads.secretconfigs import REDACTED, is_secret_config
from kdump.zookeeper.jute import AccessRule, Acl

_CONFIG: Final = "/config/"
_SCRAM: Final = "SCRAM-"
_SIGNS: Final = (b"SCRAM-", b"password", b"secret")
"""Bytes that are taken for a sign of secrets in data that is no JSON."""


def is_secret(name: str) -> bool:
    """The value of a config is a password, a key or a SCRAM credential."""
    return name.startswith(_SCRAM) or is_secret_config(name)


def data_without_secrets(path: str | None, data: bytes | None) -> bytes | None:
    """The data of a node of Kafka's configs without salts, keys and passwords; all other data as they are."""
    if data is None or _CONFIG not in (path or ""):
        return data
    try:
        values = json.loads(data)
        configs = values["config"]
        secret = [name for name in configs if is_secret(name)]
        for name in secret:
            configs[name] = REDACTED
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return REDACTED.encode() if any(sign in data for sign in _SIGNS) else data
    if not secret:
        return data
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace")


def shown_acl(acl: Acl, *, show_secrets: bool) -> list[dict[str, Any]]:
    """An ACL as JSON. Without secrets the hash of a password is ``x``."""
    return [rule._asdict() if show_secrets else _rule_without_secrets(rule) for rule in acl]


def _rule_without_secrets(rule: AccessRule) -> dict[str, Any]:
    shown = rule if rule.scheme != "digest" else rule._replace(id=f"{rule.id.partition(':')[0]}:x")
    return shown._asdict()
