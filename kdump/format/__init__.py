"""The on-disk formats, as bytes only: no knowledge of what Kafka does with them."""
