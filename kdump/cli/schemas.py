"""Where the schemas of a run are: ``--schemas``, or the log directory that is read."""

from __future__ import annotations

from collections.abc import Sequence

from kdump.inputs import Input
from kdump.payloads.choice import DecoderChoice
from kdump.payloads.registry import SCHEMA


def with_schemas(choice: DecoderChoice, path: str | None, inputs: Sequence[Input]) -> DecoderChoice:
    """A choice of decoders that knows the schemas.

    Where a user names them, what is no value by a schema is worth a finding; where they are found, it is not.

    Raises:
        KdumpError: the schemas that are named cannot be read.
    """
    if path is not None:
        from kdump.schemas.topic import registries_at

        registries_at(path)
        return choice._replace(schemas=path, value=choice.value or SCHEMA)
    if choice.by_topic or SCHEMA in (choice.key, choice.value):
        from kdump.schemas.places import find_schemas

        return choice._replace(schemas=find_schemas(inputs))
    return choice
