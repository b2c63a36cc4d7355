"""Which configs of Kafka hold a secret, and what is shown in its place."""

from __future__ import annotations

import re
from typing import Final

REDACTED: Final = "[redacted]"
_SECRET_CONFIG: Final = re.compile(
    r"(?:.*\.)?(?:password|secret|secret\.key|sasl\.jaas\.config|ssl\.keystore\.key|ssl\.keystore\.certificate\.chain"
    r"|ssl\.truststore\.certificates)"
)
"""Configs whose type is PASSWORD, also with the prefix of a listener."""


def is_secret_config(name: str) -> bool:
    """The value of a config is a password or a key."""
    return _SECRET_CONFIG.fullmatch(name) is not None
