"""Remote storage (KIP-405): buckets that a plugin wrote, read as partitions, alone or before the local ones."""
