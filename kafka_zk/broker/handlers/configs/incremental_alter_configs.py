"""IncrementalAlterConfigs: sets, deletes, appends to and subtracts from single keys (KIP-339).

Source: KafkaApis.handleIncrementalAlterConfigsRequest, ConfigAdminManager.scala,
ZkAdminManager.incrementalAlterConfigs@3.9.
"""

import enum
from typing import Any

from kafka_zk.broker.config.broker_configs import BROKER_CONFIGS
from kafka_zk.broker.handlers.configs import config_resources
from kafka_zk.broker.handlers.configs.config_resources import ResourceType
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.storage.files.log_config import TOPIC_CONFIGS

Response = codec.response(ApiKey.INCREMENTAL_ALTER_CONFIGS)


class OpType(enum.IntEnum):
    """Operations on a key. Source: AlterConfigOp.java@3.9."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS = frozenset(OpType)


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    async def alter(resource: Any) -> None:
        await _alter(services, context, resource, validate_only=request.validate_only)

    return await config_resources.alter_each(ResponseTurns(services.clock, context), Response, request, alter)


async def _alter(services: Services, context: RequestContext, resource: Any, *, validate_only: bool) -> None:
    config_resources.check_entries(resource, lambda entry: entry.config_operation == OpType.DELETE)
    if resource.resource_type == ResourceType.TOPIC:
        config_resources.authorize(services, context, Operation.ALTER_CONFIGS, resource)
        before = await config_resources.topic_properties(services, resource.resource_name)
        defaults = {key: definition.format(definition.default) for key, definition in TOPIC_CONFIGS.items()}
        lists = {key for key, definition in TOPIC_CONFIGS.items() if definition.type == "LIST"}
        after = apply(resource.configs, before, defaults, lists)
        await config_resources.change_topic(
            services, resource.resource_name, before, after, validate_only=validate_only
        )
    elif resource.resource_type == ResourceType.BROKER:
        await _alter_broker(services, context, resource, validate_only=validate_only)
    elif resource.resource_type == ResourceType.BROKER_LOGGER:
        config_resources.authorize(services, context, Operation.ALTER_CONFIGS, resource)
        raise config_resources.invalid_request("Log levels cannot be changed while the broker runs.")
    else:
        raise config_resources.not_alterable(resource.resource_type)


async def _alter_broker(services: Services, context: RequestContext, resource: Any, *, validate_only: bool) -> None:
    per_broker = config_resources.check_broker(services, resource.resource_name)
    for entry in resource.configs:
        if entry.config_operation not in _OPERATIONS:
            raise config_resources.invalid_request(f"Unknown operations type {entry.config_operation}")
    stored = await services.configs.entity("brokers", config_resources.broker_entity(services, per_broker=per_broker))
    before = services.dynamic_config.usable(stored, per_broker=per_broker)
    defaults = {key: known.default or "" for key, known in BROKER_CONFIGS.items()}
    lists = {key for key, known in BROKER_CONFIGS.items() if known.type == "LIST"}
    after = apply(resource.configs, before, defaults, lists)
    services.dynamic_config.validate_texts(after, per_broker=per_broker)
    config_resources.authorize(services, context, Operation.ALTER_CONFIGS, resource)
    await config_resources.change_broker(services, after, per_broker=per_broker, validate_only=validate_only)


def apply(entries: list[Any], before: dict[str, str], defaults: dict[str, str], lists: set[str]) -> dict[str, str]:
    """The properties after the operations.

    Append and subtract require a list; an unset key starts from its default. As in Kafka, an unknown key or operation
    gets UNKNOWN_SERVER_ERROR. Raises: ApiError.
    """
    after = dict(before)
    for entry in entries:
        key, operation = entry.name, entry.config_operation
        if operation == OpType.SET:
            after[key] = entry.value
        elif operation == OpType.DELETE:
            after.pop(key, None)
        elif operation not in _OPERATIONS or key not in defaults:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        elif key not in lists:
            word = OpType(operation).name.lower()
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Config value {word} is not allowed for config key: {key}")
        else:
            items = after.get(key, defaults[key]).split(",")
            change = _append if operation == OpType.APPEND else _subtract
            after[key] = ",".join(change(items, entry.value.split(",")))
    return after


def _append(items: list[str], added: list[str]) -> list[str]:
    present = [item for item in items if item] if items == [""] else items
    return present + [item for item in added if item not in present]


def _subtract(items: list[str], removed: list[str]) -> list[str]:
    left = list(items)
    for item in removed:
        if item in left:
            left.remove(item)
    return left
