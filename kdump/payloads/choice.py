"""Which decoder is used for which file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.payloads.topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from kdump.payloads.decoded import RecordDecoder
    from kdump.payloads.internal import InternalDecoder


class DecoderChoice(NamedTuple):
    """The decoders that were asked for.

    ``internal``: the name of the decoder of an internal topic, for all files. ``by_topic``: use the decoder of each
    file's own topic. ``key``, ``value``: names in the registry, for files without a decoder of an internal topic.
    ``schemas``: the partitions with schemas by which the others are decoded.
    """

    internal: str | None = None
    by_topic: bool = False
    key: str | None = None
    value: str | None = None
    schemas: tuple[str, ...] | None = None

    @property
    def is_made(self) -> bool:
        """A decoder was asked for."""
        return self != _NO_CHOICE

    def internal_decoder(self, topic: str | None) -> InternalDecoder | None:
        """The decoder of an internal topic for a file of ``topic`` (None: its directory names none)."""
        by_topic = (name for name, internal in INTERNAL_TOPICS.items() if self.by_topic and internal == topic)
        name = self.internal or next(by_topic, None)
        if name is None:
            return None
        from kdump.payloads.internal import DECODERS

        return DECODERS[name]

    def decoder(self, topic: str | None) -> RecordDecoder | None:
        """The decoder of a file of ``topic``; None: nothing of it is decoded.

        Raises as ``registry.log_decoder``.
        """
        internal = self.internal_decoder(topic)
        if internal is not None or (self.key, self.value, self.schemas) == (None, None, None):
            return internal
        from kdump.payloads.registry import PlainRecordDecoder

        return PlainRecordDecoder.of(self.key, self.value, topic, self.schemas)


_NO_CHOICE = DecoderChoice()
