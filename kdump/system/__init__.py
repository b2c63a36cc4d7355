"""Files and units of the operating system; nothing here knows Kafka."""
