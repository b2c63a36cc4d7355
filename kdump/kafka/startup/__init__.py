"""What a broker start makes of a partition directory (LogLoader of Kafka 4.3.1), without writing a byte."""
