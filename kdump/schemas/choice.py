"""Decoders that know where the schemas are."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kdump.inputs import Input
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
    found = path
    if path is None and (choice.by_topic or SCHEMA in (choice.key, choice.value)):
        found = find_schemas(inputs())
    if found is None:
        return choice
    from kdump.schemas.topic import schema_places

    return choice._replace(schemas=schema_places(found), value=choice.value or (None if path is None else SCHEMA))
