"""``/config/<type>/<name>`` (entity configs) and ``/config/changes/config_change_N`` (what changed).

Entity: ``{"version":1,"config":{"key":"value"}}``, all values strings. Notifications name only the entity:

    v2    0.10.1    {"version":2,"entity_path":"topics/t1"}, "users/<u>/clients/<c>", "brokers/<default>"
    v1    0.9       {"version":1,"entity_type":"topics","entity_name":"t1"}
    bare  0.8.1     "t1" (a JSON string: a topic)

Users and clients are percent-encoded as by Java's URLEncoder, but ``+`` → ``%20`` and ``*`` → ``%2A``
(kafka.utils.Sanitizer); the default entity is ``<default>``.
"""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import json_codec

CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "config_change_"
ENTITY_TYPES = ("topics", "clients", "users", "brokers", "ips")
DEFAULT_ENTITY = "<default>"


class ConfigChange(NamedTuple):
    """``entity_name``: encoded, possibly in parts (``alice/clients/app``)."""

    entity_type: str
    entity_name: str


class EntityConfig(NamedTuple):
    """``values``: the valid entries. ``faults``: sentences that each name the znode and a fault."""

    values: dict[str, str]
    faults: tuple[str, ...] = ()


def entity_type_path(entity_type: str) -> str:
    return f"/config/{entity_type}"


def entity_path(entity_type: str, entity_name: str) -> str:
    """``entity_name``: encoded (see ``sanitize``); topics and broker ids need no encoding."""
    return f"/config/{entity_type}/{entity_name}"


def sanitize(name: str) -> str:
    """Encode a user, client or principal."""
    return quote(name, safe="").replace("~", "%7E")


def desanitize(name: str) -> str:
    return unquote(name)


def encode(config: Mapping[str, str]) -> bytes:
    return json_codec.encode({"version": 1, "config": dict(config)})


def decode(path: str, data: bytes | None) -> EntityConfig:
    """The config as Kafka reads it: empty unless the data is JSON with an object 'config'.

    Null or empty data (a parent that an old tool created) is not a fault. A value that is not a string is left out;
    Kafka fails on it. Source: ConfigEntityZNode.decode in Kafka 3.9.
    """
    if not data:
        return EntityConfig({})
    try:
        listed = json_codec.decode_object(path, data).get("config")
        if not isinstance(listed, dict):
            raise InvalidZnode(f"{path}: 'config' must be an object")
    except InvalidZnode as error:
        return EntityConfig({}, (f"{error}; it is read as empty",))
    values: dict[str, str] = {}
    faults: list[str] = []
    for key in listed:
        try:
            values[key] = json_codec.text(path, listed, key)
        except InvalidZnode as error:
            faults.append(str(error))
    return EntityConfig(values, tuple(faults))


def encode_change(change: ConfigChange) -> bytes:
    """Encode a notification as version 2."""
    return json_codec.encode({"version": 2, "entity_path": f"{change.entity_type}/{change.entity_name}"})


def decode_change(path: str, data: bytes | None) -> ConfigChange:
    """Decode any historic version. Raises InvalidZnode."""
    document = json_codec.decode(path, data)
    if isinstance(document, str):
        return _change(path, "topics", json_codec.text(path, {"topic": document}, "topic"))
    if not isinstance(document, dict):
        raise InvalidZnode(f"{path}: a JSON object is expected")
    version = json_codec.version(path, document)
    if version == 1:
        return _change(
            path,
            json_codec.text(path, document, "entity_type"),
            json_codec.text(path, document, "entity_name"),
        )
    entity_type, _, entity_name = json_codec.text(path, document, "entity_path").partition("/")
    return _change(path, entity_type, entity_name)


def _change(path: str, entity_type: str, entity_name: str) -> ConfigChange:
    names_no_znode = any(part in ("", ".", "..") for part in entity_name.split("/")) or "\0" in entity_name
    if entity_type not in ENTITY_TYPES or names_no_znode:
        entity = json_codec.shown(f"{entity_type}/{entity_name}")
        raise InvalidZnode(f"{path}: {entity} is not an entity that has a config")
    return ConfigChange(entity_type, entity_name)
