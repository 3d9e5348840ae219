"""DescribeConfigs: a topic's or broker's keys with value, source, synonyms, type and documentation.

As in Kafka, a key that is set only under another spelling counts as default, and its synonyms omit that value. An
example is ``log.retention.ms`` if only ``log.retention.hours`` is set. Source: ConfigHelper.scala@3.9.
"""

import enum
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kafka_zk.base.integers import INT32, decimal_integer
from kafka_zk.broker.config import values as config_values
from kafka_zk.broker.config.broker_configs import (
    BROKER_CONFIGS,
    DYNAMIC_ONLY_CONFIGS,
    TOPIC_DEFAULTS,
    documentation,
    store_key,
    synonyms,
)
from kafka_zk.broker.handlers.configs import config_resources
from kafka_zk.broker.handlers.configs.config_resources import OF_CLUSTER, ResourceType
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code, error_message
from kafka_zk.broker.handlers.long_responses import EncodedArray, ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import Operation
from kafka_zk.protocol import codec, topic_names
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.storage.files.log_config import TOPIC_CONFIGS, LogConfig

Response = codec.response(ApiKey.DESCRIBE_CONFIGS)
Result = Response.DescribeConfigsResult
Entry = Result.DescribeConfigsResourceResult
Synonym = Entry.DescribeConfigsSynonym


class ConfigSource(enum.IntEnum):
    """Where the value of a key is set. Source: DescribeConfigsResponse.java@3.9."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


_TYPES = {
    "BOOLEAN": 1, "STRING": 2, "INT": 3, "SHORT": 4, "LONG": 5, "DOUBLE": 6, "LIST": 7, "CLASS": 8, "PASSWORD": 9,
}  # fmt: skip
_UNKNOWN_TYPE = 0
_NO_DOCUMENTATION = None


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> list[Part]:
    """Return the requested keys, or all keys, of each resource; a repeated resource is returned once.

    Resources are encoded one by one, because kafka-topics requests all topics, and objects that are not encoded yet
    need ten times the memory.
    """
    turns = ResponseTurns(services.clock, context)
    results = EncodedArray(turns, header, "results")
    for resource in dict.fromkeys(map(_Resource.of, request.resources)):
        await turns.make()
        result = Result(resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            result.configs = await _entries(services, context, resource, request)
        except EXPECTED as error:
            result.error_code, result.error_message = error_code(error), error_message(error)
        await results.add(result)
    return await results.body(Response())


class _Resource(NamedTuple):
    """``configuration_keys``: the requested keys; None or empty for all keys."""

    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None

    @classmethod
    def of(cls, named: Any) -> "_Resource":
        keys = named.configuration_keys
        return cls(named.resource_type, named.resource_name, None if keys is None else tuple(keys))


async def _entries(services: Services, context: RequestContext, resource: Any, request: Any) -> list[Any]:
    kind, name = resource.resource_type, resource.resource_name
    if kind != ResourceType.TOPIC and kind not in OF_CLUSTER:
        raise config_resources.invalid_request(f"Unexpected resource type {kind} for resource {name}")
    config_resources.authorize(services, context, Operation.DESCRIBE_CONFIGS, resource)
    if kind == ResourceType.TOPIC:
        make, keys = await _topic(services, name)
    elif kind == ResourceType.BROKER:
        make, keys = _broker(services, name)
    else:
        raise _not_described(services, kind, name)
    asked = set(resource.configuration_keys or ())
    entries = [make(key) for key in keys if not asked or key in asked]
    for entry in entries:
        if not request.include_synonyms:
            entry.synonyms = []
        if not request.include_documentation:
            entry.documentation = _NO_DOCUMENTATION
    return entries


def _not_described(services: Services, kind: int, name: str) -> ApiError:
    if kind == ResourceType.CLIENT_METRICS:
        if not name:
            return config_resources.invalid_request("Client metrics subscription name must not be empty")
        return config_resources.invalid_request("Config type client-metrics is only supported on KRaft clusters")
    if not name:
        return config_resources.invalid_request("Broker id must not be empty")
    if _broker_id(name) != services.broker_id:
        return config_resources.invalid_request(
            f"Unexpected broker id, expected {services.broker_id} but received {name}"
        )
    return config_resources.invalid_request("Log levels cannot be described: this broker has no Log4j loggers.")


Make = Callable[[str], Any]


async def _topic(services: Services, name: str) -> tuple[Make, Iterable[str]]:
    topic_names.check_name(name)
    if name not in services.metadata.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    own = await services.configs.entity("topics", name)
    known = {key: text for key, text in own.items() if key in TOPIC_CONFIGS}
    config = LogConfig.from_properties(known, services.config.topic_defaults)

    def make(key: str) -> Any:
        definition = TOPIC_CONFIGS.get(key)
        if definition is None:  # the key was written by an old tool
            shown = Synonym(name=key, value=None, source=ConfigSource.TOPIC_CONFIG)
            return _entry(key, None, [shown], None, read_only=False)
        value = config.property_text(key)
        found = _broker_synonyms(services, TOPIC_DEFAULTS[key]) if key in TOPIC_DEFAULTS else []
        if key in own:
            found.insert(0, Synonym(name=key, value=value, source=ConfigSource.TOPIC_CONFIG))
        return _entry(key, value, found, definition.type, definition.documentation, read_only=False)

    return make, [*TOPIC_CONFIGS, *(key for key in own if key not in known)]


def _broker(services: Services, name: str) -> tuple[Make, Iterable[str]]:
    dynamic = services.dynamic_config
    if name and _broker_id(name) != services.broker_id:
        raise config_resources.invalid_request(
            f"Unexpected broker id, expected {services.broker_id} or empty string, but received {name}"
        )
    texts = dynamic.effective() if name else dynamic.default

    def make(key: str) -> Any:
        known = BROKER_CONFIGS.get(store_key(key) or key) or DYNAMIC_ONLY_CONFIGS.get(key)
        found = _broker_synonyms(services, key)
        if not name:
            found = [synonym for synonym in found if synonym.source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG]
        if known is None or known.is_sensitive:  # values of unknown keys may be secrets
            for synonym in found:
                synonym.value = None
            value = None
        elif key in texts and known.type != "STRING":
            value = config_values.to_text(config_values.parse(key, known.type, texts[key]))
        else:
            value = texts.get(key, known.default)
        # True if Kafka or this broker cannot change the key at run time. For a store's key, its base key decides.
        read_only = known is None or not known.is_changeable or key in DYNAMIC_ONLY_CONFIGS
        return _entry(key, value, found, known.type if known else None, documentation(key), read_only=read_only)

    return make, [*BROKER_CONFIGS, *(key for key in texts if key not in BROKER_CONFIGS)] if name else texts


def _broker_id(name: str) -> int:
    broker_id = decimal_integer(name, INT32)
    if broker_id is None:
        raise config_resources.invalid_request(f"Broker id must be an integer, but it is: {name}")
    return broker_id


def _broker_synonyms(services: Services, key: str) -> list[Any]:
    """Where a broker key is configured, under all spellings, by precedence."""
    dynamic = services.dynamic_config
    base = store_key(key)
    spellings = synonyms(key) if base is None else (key, base)
    defaults = {name: BROKER_CONFIGS[name].default for name in spellings if name in BROKER_CONFIGS}
    layers: tuple[tuple[dict[str, Any], ConfigSource], ...] = (
        (dynamic.own, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (dynamic.default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (dynamic.static, ConfigSource.STATIC_BROKER_CONFIG),
        (defaults, ConfigSource.DEFAULT_CONFIG),
    )
    found = [
        Synonym(name=name, value=layer[name], source=source)
        for layer, source in layers
        for name in spellings
        if layer.get(name) is not None
    ]
    first = next((index for index, synonym in enumerate(found) if synonym.name == key), len(found))
    return found[first:]


def _entry(
    key: str, value: str | None, synonyms: list[Any], kind: str | None, text: str | None = None, *, read_only: bool
) -> Any:
    return Entry(
        name=key,
        value=value,
        read_only=read_only,
        config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        is_sensitive=kind is None or kind == "PASSWORD",
        synonyms=synonyms,
        config_type=_TYPES.get(kind, _UNKNOWN_TYPE) if kind else _UNKNOWN_TYPE,
        documentation=text,
    )
