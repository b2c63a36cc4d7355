"""Changes of the metadata as lines for people."""

from __future__ import annotations

import json
from typing import Any

from kdump.state.metadatapage import quota_owner, quota_text, time_text
from kdump.state.metadatarows import Row
from kdump.system.blocks import escaped


def change_line(row: Row) -> str:
    """A change in one line: time, offset, leader epoch of the controllers, of what, what, from what to what."""
    head = f"{time_text(row['timestamp'])}  offset {row['offset']}  epoch {row['epoch']}"
    parts = [head, *_subject(row), row["change"]]
    text = quota_text if row["change"] == "quota" else _value
    if row["before"] is not None:
        parts.append(f"{text(row['before'])} ->")
    if row["after"] is not None:
        parts.append(text(row["after"]))
    elif row["before"] is not None:
        parts.append("nothing")
    return escaped("  ".join([parts[0], " ".join(parts[1:])])) + "\n"


def _subject(row: Row) -> list[str]:
    if row["partition"] is not None:
        return [f"{row['topic'] or row['topicId']}-{row['partition']}"]
    if row["resourceName"] is not None:
        if row["change"] == "quota":
            return [f"{quota_owner(row['resourceName'])} {row['name']}"]
        kind = "" if row["resourceType"] is None else f"{row['resourceType']} "
        resource = row["resourceName"] or "(default)"
        return [f"{kind}{resource} {row['name'] or ''}".strip()]
    if row["topic"] is not None:
        return [f"{row['topic']} ({row['topicId']})" if row["topicId"] else row["topic"]]
    if row["broker"] is not None:
        return [str(row["broker"])]
    return [] if row["name"] is None else [row["name"]]


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_value(item)}" for name, item in value.items())
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    return value if isinstance(value, str) else json.dumps(value)
