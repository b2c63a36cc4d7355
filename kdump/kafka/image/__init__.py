"""The metadata image of a KRaft cluster: what its brokers and controllers know after a record of the metadata log.

Source: docs/spec/metadata.md (Kafka 4.3.1; org.apache.kafka.image).
"""
