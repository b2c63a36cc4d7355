"""The state of a cluster at a point in time: its metadata, its groups and transactions, the values of a topic."""
