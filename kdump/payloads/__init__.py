"""What keys and values hold: Kafka's internal topics, a few plain encodings, and what others ship.

``decode(topic, key, value)`` for the internal topics, :mod:`kdump.payloads.registry` for decoders by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump.payloads.decoded import Decoded


def decode(topic: str, key: bytes | None, value: bytes | None) -> Decoded:
    """Key and value of a record of one of Kafka's internal topics (``__consumer_offsets``, ...) as Python values.

    The values are framed as the Java tool frames them, with the field names of the schemas in camelCase::

        key    {"type": "1", "data": {"group": "g", "topic": "t", "partition": 0}}
        value  {"version": "3", "data": {"offset": 42, ...}}

    and ``{"type": "TOPIC_RECORD", "version": 0, "data": {...}}`` for ``__cluster_metadata`` and
    ``__remote_log_metadata``. Integers are int, bytes are bytes, a uuid is its 22-character text; a tagged field is
    there when it is not at its default. Null is None. The result is a tuple (key, value).

    Never raises on what the bytes hold: what does not decode is given back as the bytes it was, and says why in
    ``findings``. So is everything of other topics, without findings.
    """
    from kdump.payloads.choice import DecoderChoice
    from kdump.payloads.decoded import Decoded

    decoder = DecoderChoice(by_topic=True).internal_decoder(topic)
    return Decoded(key, value) if decoder is None else decoder.decode(key, value)
