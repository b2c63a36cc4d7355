"""The commands of Kafka that would make the metadata again: kafka-topics, kafka-configs, kafka-acls, kafka-features.

They make topics of the same names with the same replicas. Topic ids, epochs and offsets are new ones.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Final

from kdump.kafka.image.image import RESOURCE_TYPES, SCRAM_MECHANISMS, MetadataImage, QuotaEntity
from kdump.kafka.image.metadataversion import FEATURE, level_name
from kdump.payloads.secretconfigs import REDACTED, is_secret_config
from kdump.state.metadatarows import StateSelection, acl_row, config_resources, quota_entities
from kdump.system.blocks import escaped

_SERVER: Final = "--bootstrap-server"
_SPECIAL: Final = frozenset("[],=")
_BRACKETS: Final = frozenset("[]")
_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})
"""Topics that brokers make themselves."""
_ENTITY_TYPES: Final = {
    "TOPIC": "topics",
    "BROKER": "brokers",
    "BROKER_LOGGER": "broker-loggers",
    "CLIENT_METRICS": "client-metrics",
    "GROUP": "groups",
}
_QUOTA_TYPES: Final = {"user": "users", "client-id": "clients", "ip": "ips"}
_RESOURCE_OPTIONS: Final = {
    "TOPIC": "--topic",
    "GROUP": "--group",
    "TRANSACTIONAL_ID": "--transactional-id",
    "DELEGATION_TOKEN": "--delegation-token",
    "USER": "--user-principal",
}
_OPERATIONS: Final = {
    "ALL": "All", "READ": "Read", "WRITE": "Write", "CREATE": "Create", "DELETE": "Delete", "ALTER": "Alter",
    "DESCRIBE": "Describe", "CLUSTER_ACTION": "ClusterAction", "DESCRIBE_CONFIGS": "DescribeConfigs",
    "ALTER_CONFIGS": "AlterConfigs", "IDEMPOTENT_WRITE": "IdempotentWrite", "CREATE_TOKENS": "CreateTokens",
    "DESCRIBE_TOKENS": "DescribeTokens", "TWO_PHASE_COMMIT": "TwoPhaseCommit",
}  # fmt: skip


def metadata_commands(image: MetadataImage, selection: StateSelection) -> Iterator[str]:
    """One command a line, for a shell in which SERVER is ``host:port``; what cannot be made again is a comment."""
    if selection.is_all:
        yield from _features(image)
    yield from _topics(image, selection)
    yield from _configs(image, selection)
    if selection.is_all:
        yield from _quotas(image)
        for acl in sorted(image.acls):
            yield _acl(acl_row(image.acls[acl]))
        yield from _credentials(image)
        for token in image.tokens.values():
            yield _comment(
                f"a delegation token of {token['owner']}: kafka-delegation-tokens.sh --create makes another one"
            )


def _features(image: MetadataImage) -> Iterator[str]:
    level = image.metadata_version
    if level is not None:
        name = level_name(level)
        given = ("--feature", f"{FEATURE}={level}") if name is None else ("--metadata", name)
        yield _command("kafka-features.sh", "upgrade", *given)
    for name in sorted(image.features):
        if name != FEATURE:
            yield _command("kafka-features.sh", "upgrade", "--feature", f"{name}={image.features[name]}")


def _topics(image: MetadataImage, selection: StateSelection) -> Iterator[str]:
    for name in sorted(image.topics.by_name):
        topic = image.topics.by_name[name]
        if not selection.shows_topic(topic):
            continue
        if name in _INTERNAL:
            yield _comment(f"{name}: the brokers make it themselves")
            continue
        numbers = sorted(topic.partitions)
        if numbers != list(range(len(numbers))) or not numbers:
            known = ", ".join(map(str, numbers)) or "none"
            yield _comment(f"{name}: partitions {known}; no command makes such a topic")
            continue
        replicas = [":".join(map(str, topic.partitions[number].replicas)) for number in numbers]
        yield _command("kafka-topics.sh", "--create", "--topic", name, "--replica-assignment", ",".join(replicas))


def _configs(image: MetadataImage, selection: StateSelection) -> Iterator[str]:
    for kind, resource in config_resources(image):
        entity = _ENTITY_TYPES.get(RESOURCE_TYPES[kind])
        if entity is None or not selection.has_resource(kind, resource):
            continue
        configs = image.configs[kind, resource]
        shown = ((name, _shown(name, configs[name], selection)) for name in sorted(configs))
        chosen = ["--entity-name", resource] if resource else ["--entity-default"]
        yield from _alter(["--entity-type", entity, *chosen], shown)


def _shown(name: str, value: str, selection: StateSelection) -> str:
    return value if selection.show_secrets or not is_secret_config(name) else REDACTED


def _alter(entity: list[str], settings: Iterable[tuple[str, str]]) -> Iterator[str]:
    added, unset = add_config(settings)
    if added:
        yield _command("kafka-configs.sh", "--alter", *entity, "--add-config", added)
    for name in unset:
        yield _comment(f"{name} of {' '.join(entity)}: --add-config cannot set it, --add-config-file can")


def _quotas(image: MetadataImage) -> Iterator[str]:
    for entity in quota_entities(image):
        quotas = sorted(image.quotas[entity].items())
        yield from _alter([*_entity(entity)], ((key, str(value)) for key, value in quotas))


def _entity(entity: QuotaEntity) -> Iterator[str]:
    for kind, name in entity:
        yield from ("--entity-type", _QUOTA_TYPES.get(kind, kind))
        yield from ("--entity-default",) if name is None else ("--entity-name", name)


def _acl(row: dict[str, str]) -> str:
    resource = row["resourceType"]
    chosen = (
        ["--cluster"] if resource == "CLUSTER" else [_RESOURCE_OPTIONS.get(resource, resource), row["resourceName"]]
    )
    if row["patternType"] != "LITERAL":
        chosen += ["--resource-pattern-type", row["patternType"].lower()]
    kind = "allow" if row["permissionType"] == "ALLOW" else "deny"
    who = [f"--{kind}-principal", row["principal"], f"--{kind}-host", row["host"]]
    operation = _OPERATIONS.get(row["operation"], row["operation"])
    return _command("kafka-acls.sh", "--add", *who, "--operation", operation, *chosen)


def _credentials(image: MetadataImage) -> Iterator[str]:
    for mechanism, users in sorted(image.scram.items()):
        name = SCRAM_MECHANISMS[mechanism]
        for user in sorted(users):
            added = f"{name}=[iterations={users[user]['iterations']},password=PASSWORD]"
            yield _command(
                "kafka-configs.sh", "--alter", "--entity-type", "users", "--entity-name", user, "--add-config", added
            )


def _comment(text: str) -> str:
    """A line that a shell ignores, whatever names are in it."""
    return f"# {escaped(text)}"


def _command(tool: str, *words: str) -> str:
    return f'{tool} {_SERVER} "$SERVER" {shlex.join(words)}'


def add_config(settings: Iterable[tuple[str, str]]) -> tuple[str, list[str]]:
    """The argument of ``--add-config`` for settings, by names and values, and the names of those that it cannot set.

    It sets what was meant and nothing else. Commas and equals signs separate, but for those in brackets. Then brackets
    are removed everywhere, and blanks around names and values.

    Source: ConfigCommand.parseConfigsToBeAdded of Kafka 4.3 and 4.4.
    """
    added, unset = [], []
    for name, value in settings:
        setting = _added(name, value)
        if setting is None:
            unset.append(name)
        else:
            added.append(setting)
    return ",".join(added), unset


def _added(name: str, value: str) -> str | None:
    if not name or _SPECIAL & set(name) or _BRACKETS & set(value) or _is_padded(name) or _is_padded(value):
        return None
    return f"{name}=[{value}]" if _SPECIAL & set(value) else f"{name}={value}"


def _is_padded(text: str) -> bool:
    """Whether a character at an end is one that String.trim() of Java removes."""
    return any(character <= " " for character in (text[:1], text[-1:]) if character)
