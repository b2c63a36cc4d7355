"""Brokers and controllers in the metadata image, and how records change them.

Source: docs/spec/metadata.md#3-from-records-to-the-image (ClusterDelta, BrokerRegistration, ControllerRegistration).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from kdump.kafka.image.faults import ReplayError
from kdump.kafka.image.packedmap import Members, PackedMap, merged
from kdump.kafka.image.partitions import LongList
from kdump.payloads.java import hash_map_order_of, hash_map_size

Registration: TypeAlias = dict[str, Any]
"""The members of a RegisterBrokerRecord or a RegisterControllerRecord that makes the registration."""

_CHANGES: Final[dict[int, bool | None]] = {-1: False, 0: None, 1: True}
"""What a change of ``fenced`` means; None: unchanged."""
_SHUTDOWN_CHANGES: Final[dict[int, bool | None]] = {0: None, 1: True}
_LONG: Final = 64
"""Items of a list that is held apart from the rest of its registration."""
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class _OneMember(PackedMap[int, Any]):
    """One member of brokers. It may hold a hundred thousand directories: a long list is packed for itself.

    So who gets it need not read it.
    """

    most_objects = 0

    def _pack(self, value: Any) -> bytes | None:
        return None if isinstance(value, LongList) else super()._pack(value)


class _Changed:
    """Members of registrations that are held apart, by name and broker."""

    def __init__(self) -> None:
        self._by_name: dict[str, _OneMember] = {}

    def of(self, broker: int, names: Collection[str] | None) -> Registration:
        """The members of a broker that have these names; None: all, and none is a LongList."""
        if names is None:
            found = self.of(broker, self._by_name.keys())
            return {name: list(value) if isinstance(value, LongList) else value for name, value in found.items()}
        members = ((name, values.find(broker)) for name, values in self._by_name.items() if name in names)
        return {name: value for name, value in members if value is not None}

    def put(self, broker: int, changes: Registration) -> None:
        """Members of a broker change."""
        for name, value in changes.items():
            is_long = isinstance(value, list) and len(value) > _LONG
            self._by_name.setdefault(name, _OneMember())[broker] = LongList(value) if is_long else value

    def update(self, other: _Changed) -> None:
        """Later changes."""
        for name, values in other._by_name.items():
            self._by_name.setdefault(name, _OneMember()).update(values)

    def forget(self, broker: int) -> None:
        """Its registration is another one, or none."""
        for values in self._by_name.values():
            values.pop(broker, None)


class Brokers(Members[int]):
    """Registrations of brokers; {} where one is removed.

    A registration may have a hundred thousand endpoints. So ``changed`` holds what changed beside the registrations, as
    a change costs no more than itself, and their long lists, as who asks for a short member reads no long one.
    ``epochs`` holds the epochs of all that are there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changed = _Changed()
        self.epochs = PackedMap[int, int]()

    def find(self, key: int) -> Registration | None:
        """See PackedMap."""
        return self.part(key, None)

    def part(self, key: int, names: Collection[str] | None) -> Registration | None:
        """The members with these names; None: all. As ``find`` where there is no registration.

        A long list that is asked for by name is a LongList.
        """
        found = super().find(key)
        if not found:
            return found
        return {name: found[name] for name in names or found} | self.changed.of(key, names)

    def __setitem__(self, key: int, value: Registration) -> None:
        long = {name: items for name, items in value.items() if isinstance(items, list) and len(items) > _LONG}
        super().__setitem__(key, value | {name: [] for name in long})
        self.changed.forget(key)
        self.changed.put(key, long)
        if value:
            self.epochs[key] = value["brokerEpoch"]
        else:
            self.epochs.pop(key, None)

    def __delitem__(self, key: int) -> None:
        super().__delitem__(key)
        self.changed.forget(key)
        self.epochs.pop(key, None)


@dataclass(slots=True)
class ClusterImage:
    """Registrations by node id."""

    brokers: Brokers = field(default_factory=Brokers)
    controllers: Members[int] = field(default_factory=Members)


class ClusterDelta:
    """Changes of registrations that wait until their batch or transaction is complete; {} removes."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._brokers = Brokers()
        self._changed = _Changed()
        self._controllers = Members[int]()

    def register_broker(self, values: dict[str, Any]) -> None:
        """RegisterBrokerRecord."""
        endpoints = _by_name(values["endPoints"])
        if "" in endpoints:
            raise ReplayError("a listener of the broker has no name")
        self._changed.forget(values["brokerId"])
        self._brokers[values["brokerId"]] = values | {
            "endPoints": _again(endpoints, hash_map_size(len(endpoints))),
            "features": _features(values["features"], copied=True),
            "logDirs": sorted(values["logDirs"], key=_uuid_order),
        }

    def unregister_broker(self, values: dict[str, Any]) -> None:
        """UnregisterBrokerRecord: nothing looks whether the broker is there."""
        self._changed.forget(values["brokerId"])
        self._brokers[values["brokerId"]] = {}

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
        self._check(broker, epoch, "change")
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

    def broker(self, broker: int, names: Collection[str] | None = None) -> Registration | None:
        """The members of a broker that have these names (None: all), with the changes so far; see ``Brokers.part``."""
        found = self._brokers.part(broker, names)
        if found is None:
            found = self._image.brokers.part(broker, names)
        return found | self._changed.of(broker, names) if found else None

    def apply(self) -> None:
        """Change the image."""
        image = self._image
        image.brokers = merged(image.brokers, self._brokers)
        image.brokers.changed.update(self._changed)
        image.controllers = merged(image.controllers, self._controllers)

    def _change(self, broker: int, epoch: int, action: str, changes: dict[str, Any]) -> None:
        self._check(broker, epoch, action)
        self._changed.put(broker, changes)

    def _check(self, broker: int, epoch: int, action: str) -> None:
        own = self._brokers.epochs.find(broker)
        if own is None and broker not in self._brokers:
            own = self._image.brokers.epochs.find(broker)
        if own is None:
            raise ReplayError(f"cannot {action} broker {broker}: it is not registered")
        if own != epoch:
            raise ReplayError(f"cannot {action} broker {broker} of epoch {epoch}: its epoch is {own}")


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
