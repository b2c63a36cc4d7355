"""Answers to what would write: refused, with an error that no client takes for a passing one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kdump.format.message import Field
from kdump.serve.wire import Error, Request

REASON: Final = "kdump serve is read-only: it writes nothing"
_ERRORS: Final = {
    "Produce": Error.TOPIC_AUTHORIZATION_FAILED,
    "InitProducerId": Error.CLUSTER_AUTHORIZATION_FAILED,
    "CreateTopics": Error.POLICY_VIOLATION,
    "DeleteTopics": Error.POLICY_VIOLATION,
    "DeleteRecords": Error.POLICY_VIOLATION,
    "AlterConfigs": Error.POLICY_VIOLATION,
    "IncrementalAlterConfigs": Error.POLICY_VIOLATION,
    "CreatePartitions": Error.POLICY_VIOLATION,
    "DeleteGroups": Error.CLUSTER_AUTHORIZATION_FAILED,
    "OffsetDelete": Error.CLUSTER_AUTHORIZATION_FAILED,
}
REFUSED: Final = frozenset(_ERRORS)
"""The requests that are refused."""
_SOURCES: Final = {
    "responses": ("topicData", "resources", "topics", "topicNames"),
    "partitionResponses": ("partitionData",),
    "results": ("topics", "groupsNames"),
    "topics": ("topics",),
    "partitions": ("partitions",),
}
"""By an array of a response, the arrays of the request that it answers one by one."""
_NAMES: Final = ("name", "groupId")
"""What an element is called that the request gives as a text."""


def refused(request: Request) -> dict[str, Any]:
    """The response that refuses a request, and all that is in it."""
    return _answer(request.api.response.fields, request.values, _ERRORS[request.api.name])


def _answer(fields: tuple[Field, ...], asked: Mapping[str, Any], error: Error) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields:
        if field.name == "errorCode":
            found[field.name] = error
        elif field.name == "errorMessage":
            found[field.name] = REASON
        elif field.name in _SOURCES and field.fields:
            elements: list[Any] = next((asked[name] for name in _SOURCES[field.name] if asked.get(name)), [])
            found[field.name] = [_answer(field.fields, _named(element), error) for element in elements]
        elif field.name in asked and not field.fields:
            found[field.name] = asked[field.name]
    return found


def _named(element: Any) -> Mapping[str, Any]:
    return element if isinstance(element, dict) else dict.fromkeys(_NAMES, element)
