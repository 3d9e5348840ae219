"""AlterConfigs, the older API: replaces a topic's or broker's whole dynamic configuration.

Source: KafkaApis.handleAlterConfigsRequest, ConfigAdminManager.preprocess@3.9. Kafka never responds to a request that
names a resource twice. Here the resource gets the error that Kafka creates for it.
"""

from typing import Any

from kafka_zk.broker.handlers.configs import config_resources
from kafka_zk.broker.handlers.configs.config_resources import ResourceType
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import RequestContext, RequestHeader

Response = codec.response(ApiKey.ALTER_CONFIGS)


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Returns an error code and message for each resource."""

    async def alter(resource: Any) -> None:
        await _alter(services, context, resource, validate_only=request.validate_only)

    return await config_resources.alter_each(ResponseTurns(services.clock, context), Response, request, alter)


async def _alter(services: Services, context: RequestContext, resource: Any, *, validate_only: bool) -> None:
    config_resources.check_entries(resource)
    properties = {entry.name: entry.value for entry in resource.configs}
    if resource.resource_type == ResourceType.TOPIC:
        config_resources.authorize(services, context, Operation.ALTER_CONFIGS, resource)
        before = await config_resources.topic_properties(services, resource.resource_name)
        await config_resources.change_topic(
            services, resource.resource_name, before, properties, validate_only=validate_only
        )
        return
    if resource.resource_type != ResourceType.BROKER:
        raise config_resources.not_alterable(resource.resource_type)
    per_broker = config_resources.check_broker(services, resource.resource_name)
    services.dynamic_config.validate_texts(properties, per_broker=per_broker)
    config_resources.authorize(services, context, Operation.ALTER_CONFIGS, resource)
    await config_resources.change_broker(services, properties, per_broker=per_broker, validate_only=validate_only)
