"""The books of a controller: they refuse records that apply to the image, and then the controller stops.

Source: docs/spec/metadata.md#31-faults (the *ControlManager classes). Here is only what the image does not refuse
already: a record that does not apply to the image stops a controller too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from kdump.kafka.image.faults import ReplayError
from kdump.kafka.image.metadataversion import UNSUPPORTED, is_newer_level
from kdump.releases import NEWEST, Release

_BROKER_RESOURCE: Final = 4
_BEGIN, _END, _ABORT = 23, 24, 25
_PRODUCER: Final = "producer"
_Acl: TypeAlias = tuple[Any, ...]
_ACL: Final = ("resourceType", "resourceName", "patternType", "principal", "host", "operation", "permissionType")


class ControllerBooks:
    """What a controller remembers of the records so far. Each change of a book goes through ``_put``.

    ``release``: see ImageLoader.
    """

    def __init__(self, release: Release | None = None) -> None:
        self._release = release
        self.topics: dict[str, str] = {}
        """Names by ids."""
        self.names: dict[str, str] = {}
        """Ids by names."""
        self.brokers: dict[int, int] = {}
        """Epochs by ids."""
        self.controllers: dict[int, bool] = {}
        self.acls: dict[str, _Acl] = {}
        """By their ids."""
        self.existing_acls: dict[_Acl, bool] = {}
        self.credentials: dict[tuple[int, str], bool] = {}
        self.next_ids: dict[str, int] = {}
        self._changes: list[tuple[str, Any, Any]] | None = None
        """The book, a key, and what was under it before each change of the open transaction; None: none is open."""

    def replay(self, record_type: int, values: dict[str, Any], offset: int, *, in_snapshot: bool) -> None:
        """The next record. Raises ReplayError where a controller stops."""
        if record_type in (_BEGIN, _END, _ABORT):
            if in_snapshot:
                raise ReplayError("a transaction in a snapshot")
            if record_type == _ABORT:
                self._take_back()
            self._changes = [] if record_type == _BEGIN else None
            return
        step = _STEPS.get(record_type)
        if step is not None:
            step(self, values)

    def _take_back(self) -> None:
        """Undo the changes of the open transaction."""
        for book, key, before in reversed(self._changes or []):
            _set(getattr(self, book), key, before)

    def _put(self, name: str, key: Any, value: Any) -> None:
        """Change a book, by its name; None removes."""
        book: dict[Any, Any] = getattr(self, name)
        if self._changes is not None:
            self._changes.append((name, key, book.get(key)))
        _set(book, key, value)

    def _topic(self, values: dict[str, Any]) -> None:
        name, topic_id = values["name"], values["topicId"]
        before = self.names.get(name)
        self._put("names", name, topic_id)
        if before is not None:
            other = "this id" if before == topic_id else f"the id {before}"
            raise ReplayError(f"the topic {name} exists already with {other}")
        self._put("topics", topic_id, name)

    def _remove_topic(self, values: dict[str, Any]) -> None:
        topic_id = values["topicId"]
        name = self.topics.get(topic_id)
        if name is None:
            raise ReplayError("the controller knows no topic with this id")
        self._put("topics", topic_id, None)
        self._put("names", name, None)

    def _register_broker(self, values: dict[str, Any]) -> None:
        self._put("brokers", values["brokerId"], values["brokerEpoch"])

    def _unregister_broker(self, values: dict[str, Any]) -> None:
        broker, epoch = values["brokerId"], values["brokerEpoch"]
        if broker not in self.brokers:
            raise ReplayError(f"broker {broker} is not registered")
        if self.brokers[broker] != epoch:
            raise ReplayError(f"broker {broker} has the epoch {self.brokers[broker]}, not {epoch}")
        self._put("brokers", broker, None)

    def _register_controller(self, values: dict[str, Any]) -> None:
        self._put("controllers", values["controllerId"], True)

    def _unregister_controller(self, values: dict[str, Any]) -> None:
        controller = values["controllerId"]
        if controller not in self.controllers:
            raise ReplayError(f"no controller registration found for the id {controller}")
        self._put("controllers", controller, None)

    def _feature(self, values: dict[str, Any]) -> None:
        name, level = values["name"], values["featureLevel"]
        release = self._release or NEWEST
        lowest, highest = release.features.get(name, UNSUPPORTED)
        if self._release is None and is_newer_level(name, level):
            return
        if not lowest <= level <= highest:
            known = f"levels {lowest} to {highest} of {name}"
            raise ReplayError(f"a controller of Kafka {release.version} knows {known}, not {level}")

    def _config(self, values: dict[str, Any]) -> None:
        name = values["resourceName"]
        if values["resourceType"] == _BROKER_RESOURCE and name and not name.lstrip("+-").isdecimal():
            raise ReplayError(f"{name!r} is no broker id")

    def _producer_ids(self, values: dict[str, Any]) -> None:
        following = values["nextProducerId"]
        before = self.next_ids.get(_PRODUCER)
        if before is not None and following <= before:
            raise ReplayError(f"the next producer id {following} is not above {before}")
        self._put("next_ids", _PRODUCER, following)

    def _acl(self, values: dict[str, Any]) -> None:
        acl = tuple(values[name] for name in _ACL)
        self._put("acls", values["id"], acl)
        self._put("existing_acls", acl, True)

    def _remove_acl(self, values: dict[str, Any]) -> None:
        acl = self.acls.get(values["id"])
        self._put("acls", values["id"], None)
        if acl is None or acl not in self.existing_acls:
            raise ReplayError(f"the controller has no ACL {values['id']}")
        self._put("existing_acls", acl, None)

    def _scram(self, values: dict[str, Any]) -> None:
        self._put("credentials", (values["mechanism"], values["name"]), True)

    def _remove_scram(self, values: dict[str, Any]) -> None:
        key = values["mechanism"], values["name"]
        if key not in self.credentials:
            raise ReplayError(f"there is no such credential of {values['name']}")
        self._put("credentials", key, None)


def _set(book: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        book.pop(key, None)
    else:
        book[key] = value


_STEPS: Final[dict[int, Callable[[ControllerBooks, dict[str, Any]], None]]] = {
    0: ControllerBooks._register_broker,
    1: ControllerBooks._unregister_broker,
    2: ControllerBooks._topic,
    4: ControllerBooks._config,
    9: ControllerBooks._remove_topic,
    11: ControllerBooks._scram,
    12: ControllerBooks._feature,
    15: ControllerBooks._producer_ids,
    18: ControllerBooks._acl,
    19: ControllerBooks._remove_acl,
    22: ControllerBooks._remove_scram,
    27: ControllerBooks._register_controller,
    29: ControllerBooks._unregister_controller,
}
BOOKED: Final = frozenset({*_STEPS, _BEGIN, _END, _ABORT})
"""The types of records that a controller may refuse though they apply to the image."""
