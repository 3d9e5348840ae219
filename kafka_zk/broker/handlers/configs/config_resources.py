"""Code that DescribeConfigs, AlterConfigs and IncrementalAlterConfigs share.

Source: ConfigAdminManager.scala, ZkAdminManager.alterConfigs@3.9.
"""

import enum
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from kafka_zk.base.integers import INT32, decimal_integer
from kafka_zk.broker.config import values as config_values
from kafka_zk.broker.config.dynamic_config import check_count
from kafka_zk.broker.config.values import BadValue
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code, error_message
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation, topic
from kafka_zk.protocol import topic_names
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext
from kafka_zk.registry.znodes.config import DEFAULT_ENTITY


class ResourceType(enum.IntEnum):
    """Kinds of resources that have a configuration. Source: ConfigResource.java@3.9."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


OF_CLUSTER = (ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS)


def authorize(services: Services, context: RequestContext, operation: Operation, resource: Any) -> None:
    """Raise TOPIC_AUTHORIZATION_FAILED or CLUSTER_AUTHORIZATION_FAILED unless the operation is allowed."""
    if resource.resource_type == ResourceType.TOPIC:
        allowed = services.authorizer.authorize(context, operation, topic(resource.resource_name))
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    else:
        allowed = services.authorizer.authorize(context, operation, CLUSTER)
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if not allowed:
        raise ApiError(code)


def repeated(resources: Iterable[Any]) -> set[tuple[int, str]]:
    """The resources that are named more than once."""
    names = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    return {name for name, count in names.items() if count > 1}


def check_entries(resource: Any, may_be_null: Callable[[Any], bool] = lambda entry: False) -> None:
    """Raise ApiError for duplicate keys, missing values, and too many keys."""
    check_count(len(resource.configs))
    names = [entry.name for entry in resource.configs]
    if len(set(names)) != len(names):
        raise invalid_request("Error due to duplicate config keys")
    empty = [entry.name for entry in resource.configs if entry.value is None and not may_be_null(entry)]
    if empty:
        raise invalid_request(f"Null value not supported for : {', '.join(empty)}")


def check_broker(services: Services, name: str) -> bool:
    """True for this broker, False for the default of all. Raises: ApiError for another broker."""
    if not name:
        return False
    broker_id = decimal_integer(name, INT32)
    if broker_id is None:
        raise invalid_request(f"Node id must be an integer, but it is: {name}")
    if broker_id != services.broker_id:
        raise invalid_request(f"Unexpected broker id, expected {services.broker_id}, but received {name}")
    return True


def invalid_request(problem: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, problem)


def not_alterable(resource_type: int) -> ApiError:
    """The error for resources that are neither topics nor brokers."""
    if resource_type == ResourceType.CLIENT_METRICS:
        return invalid_request(
            "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS"
        )
    return invalid_request(f"Unknown resource type {resource_type}")


def check_topic_name(name: str) -> None:
    if not name:
        raise invalid_request("Default topic resources are not allowed.")
    if not topic_names.is_legal_name(name):  # an illegal name could produce the path of another znode
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


async def topic_properties(services: Services, name: str) -> dict[str, str]:
    """A topic's own configuration as stored. Raises: ApiError for an illegal name, RegistryError."""
    check_topic_name(name)
    return await services.configs.entity("topics", name)


async def change_topic(
    services: Services, name: str, before: Mapping[str, str], properties: Mapping[str, str], *, validate_only: bool
) -> None:
    """Replace a topic's configuration (``before``), and notify all brokers. Raises: ApiError, RegistryError."""
    if name not in services.metadata.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    config_values.check_stays_tiered(name, before, properties)
    try:
        config_values.check_topic(properties, services.config.topic_defaults)
    except BadValue as error:
        problem = f"Invalid config value for resource ConfigResource(type=TOPIC, name='{name}'): {error}"
        raise ApiError(ErrorCode.INVALID_CONFIG, problem) from None
    if not validate_only:
        await services.configs.change_entity("topics", name, properties)


def broker_entity(services: Services, *, per_broker: bool) -> str:
    return str(services.broker_id) if per_broker else DEFAULT_ENTITY


async def change_broker(
    services: Services, properties: Mapping[str, str], *, per_broker: bool, validate_only: bool
) -> None:
    """Replace the configuration of this broker, or the default of all, and notify all brokers. Raises: ApiError."""
    services.dynamic_config.validate(properties, per_broker=per_broker)
    stored = services.dynamic_config.stored(properties)
    if not validate_only:
        await services.configs.change_entity("brokers", broker_entity(services, per_broker=per_broker), stored)


async def alter_each(
    turns: ResponseTurns, response: Any, request: Any, alter: Callable[[Any], Awaitable[None]]
) -> Any:
    """Call ``alter`` for each resource. An error is the resource's result."""
    resources_twice = repeated(request.resources)
    results = []
    async for resource in turns.each(request.resources):
        result = response.AlterConfigsResourceResponse(
            error_code=0,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        try:
            if (resource.resource_type, resource.resource_name) in resources_twice:
                raise invalid_request("Each resource must appear at most once.")
            await alter(resource)
        except EXPECTED as error:
            result.error_code, result.error_message = error_code(error), error_message(error)
        results.append(result)
    return response(throttle_time_ms=0, responses=results)
