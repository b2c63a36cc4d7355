"""Decoders that know where the schemas are."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kdump.inputs import Input
from kdump.log import files
from kdump.log.names import is_uri
from kdump.payloads.choice import DecoderChoice
from kdump.payloads.registry import SCHEMA
from kdump.schemas.places import find_schemas


def with_schemas(choice: DecoderChoice, path: str | None, inputs: Callable[[], Iterable[Input]]) -> DecoderChoice:
    """A choice of decoders that knows the schemas.

    Args:
        choice: with schemas that are named, what is no value by a schema is worth a finding; where they are found by
            ``by_topic``, it is not.
        path: where the user says that they are; None: nowhere.
        inputs: gives what is read, in which they are looked for.

    Raises:
        KdumpError: the schemas that are named cannot be read.
    """
    if path is not None:
        from kdump.schemas.topic import registries_at

        registries_at(path)
        # Workers may have another directory.
        return choice._replace(schemas=path if is_uri(path) else files.absolute(path), value=choice.value or SCHEMA)
    if choice.by_topic or SCHEMA in (choice.key, choice.value):
        return choice._replace(schemas=find_schemas(inputs()))
    return choice
