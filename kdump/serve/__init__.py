"""``kdump serve``: logs of a dead disk, a copy or a bucket for every Kafka client, read-only."""
