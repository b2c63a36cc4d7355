"""The memory that a batch of the metadata log takes while it is loaded."""

from __future__ import annotations

import tracemalloc

from kdump.kafka.image.loader import ImageLoader
from kdump.kafka.image.metadatalog import MetadataBatch


def loaded_with_peak(batch: MetadataBatch) -> tuple[ImageLoader, int]:
    """What a batch was loaded into, and the bytes at the peak. What the decoders remember is bounded: not counted."""
    ImageLoader().load(batch)
    image = ImageLoader()
    tracemalloc.start()
    image.load(batch)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return image, peak
