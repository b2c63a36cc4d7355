"""Brokers and controllers in the metadata image, and how records change them.

Source: docs/spec/metadata.md#3-from-records-to-the-image (ClusterDelta, BrokerRegistration, ControllerRegistration).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from kdump.kafka.image.faults import ReplayError
from kdump.payloads.java import hash_map_order_of, hash_map_size

KeyT = TypeVar("KeyT")

Registration: TypeAlias = dict[str, Any]
"""The members of a RegisterBrokerRecord or a RegisterControllerRecord that makes the registration."""

_CHANGES: Final[dict[int, bool | None]] = {-1: False, 0: None, 1: True}
"""What a change of ``fenced`` means; None: unchanged."""
_SHUTDOWN_CHANGES: Final[dict[int, bool | None]] = {0: None, 1: True}
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(slots=True)
class ClusterImage:
    """Registrations by node id."""

    brokers: dict[int, Registration] = field(default_factory=dict)
    controllers: dict[int, Registration] = field(default_factory=dict)


class ClusterDelta:
    """Changes of registrations that wait until their batch or transaction is complete; {} removes."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._brokers: dict[int, Registration] = {}
        self._controllers: dict[int, Registration] = {}

    def register_broker(self, values: dict[str, Any]) -> None:
        """RegisterBrokerRecord."""
        endpoints = _by_name(values["endPoints"])
        if "" in endpoints:
            raise ReplayError("a listener of the broker has no name")
        self._brokers[values["brokerId"]] = values | {
            "endPoints": _again(endpoints, hash_map_size(len(endpoints))),
            "features": _features(values["features"], copied=True),
            "logDirs": sorted(values["logDirs"], key=_uuid_order),
        }

    def unregister_broker(self, values: dict[str, Any]) -> None:
        """UnregisterBrokerRecord: nothing looks whether the broker is there."""
        self._brokers[values["brokerId"]] = {}

    def unregister_controller(self, values: dict[str, Any]) -> None:
        """UnregisterControllerRecord: nothing looks whether it is there."""
        self._controllers[values["controllerId"]] = {}

    def register_controller(self, values: dict[str, Any]) -> None:
        """RegisterControllerRecord."""
        for endpoint in values["endPoints"]:
            if not 0 <= endpoint["securityProtocol"] < len(SECURITY_PROTOCOLS):
                raise ReplayError(f"there is no security protocol {endpoint['securityProtocol']}")
        self._controllers[values["controllerId"]] = values | {
            "endPoints": list(_by_name(values["endPoints"]).values()),
            "features": _features(values["features"], copied=False),
        }

    def fence(self, values: dict[str, Any]) -> None:
        """FenceBrokerRecord."""
        self._change(values["id"], values["epoch"], "fence", {"fenced": True})

    def unfence(self, values: dict[str, Any]) -> None:
        """UnfenceBrokerRecord."""
        self._change(values["id"], values["epoch"], "unfence", {"fenced": False})

    def change(self, values: dict[str, Any]) -> None:
        """BrokerRegistrationChangeRecord: a member that is 0, empty or null stays as it is."""
        broker, epoch = values["brokerId"], values["brokerEpoch"]
        self._registered(broker, epoch, "change")
        changes: dict[str, Any] = {}
        for name, known in (("fenced", _CHANGES), ("inControlledShutdown", _SHUTDOWN_CHANGES)):
            if values[name] not in known:
                raise ReplayError(f"{name} is {values[name]}, which means nothing")
            if known[values[name]] is not None:
                changes[name] = known[values[name]]
        if values["logDirs"]:
            changes["logDirs"] = sorted(values["logDirs"], key=_uuid_order)
        if values["cordonedLogDirs"] is not None:
            changes["cordonedLogDirs"] = values["cordonedLogDirs"]
        self._change(broker, epoch, "change", changes)

    def broker(self, broker: int) -> Registration | None:
        """A registration with the changes so far."""
        found = self._brokers.get(broker)
        return self._image.brokers.get(broker) if found is None else found or None

    def apply(self) -> None:
        """Change the image."""
        merge(self._image.brokers, self._brokers)
        merge(self._image.controllers, self._controllers)

    def _change(self, broker: int, epoch: int, action: str, changes: dict[str, Any]) -> None:
        self._brokers[broker] = self._registered(broker, epoch, action) | changes

    def _registered(self, broker: int, epoch: int, action: str) -> Registration:
        found = self.broker(broker)
        if found is None:
            raise ReplayError(f"cannot {action} broker {broker}: it is not registered")
        if found["brokerEpoch"] != epoch:
            raise ReplayError(f"cannot {action} broker {broker} of epoch {epoch}: its epoch is {found['brokerEpoch']}")
        return found


def merge(target: dict[KeyT, Any], changes: Mapping[KeyT, Any]) -> None:
    """Make changes in an image, of which an empty one removes."""
    for key, value in changes.items():
        if value:
            target[key] = value
        else:
            target.pop(key, None)


def _by_name(items: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The last item of each name, in the order of a HashMap."""
    found = {item["name"]: item for item in items}
    return {name: found[name] for name in hash_map_order_of(dict.fromkeys(item["name"] for item in items), 16)}


def _again(items: dict[str, dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """The items in the order of a second HashMap of ``size`` buckets."""
    return [items[name] for name in hash_map_order_of(items, size)]


def _features(features: list[dict[str, Any]], *, copied: bool) -> list[dict[str, Any]]:
    """In the order of a HashMap (``copied``: of a copy of it)."""
    found = _by_name(features)
    if not copied:
        return list(found.values())
    return _again(found, hash_map_size(int(len(found) / 0.75 + 1)))


def _uuid_order(text: str) -> tuple[int, int]:
    """As Uuid.compareTo orders: two signed numbers of 64 bits."""
    most, least = struct.unpack(">qq", base64.urlsafe_b64decode(text + "=="))
    return most, least
