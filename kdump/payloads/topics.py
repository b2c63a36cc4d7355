"""The topics in which Kafka keeps its own state."""

from __future__ import annotations

from typing import Final

INTERNAL_TOPICS: Final = {
    "offsets": "__consumer_offsets",
    "transaction-log": "__transaction_state",
    "cluster-metadata": "__cluster_metadata",
    "remote-log-metadata": "__remote_log_metadata",
    "share-group-state": "__share_group_state",
}
"""By the name of their decoder, in the order in which the Java tool prefers them."""
