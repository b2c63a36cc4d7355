"""Models of what Kafka does, each tested against the real code."""
