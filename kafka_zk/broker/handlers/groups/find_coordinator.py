"""FindCoordinator: the leader of a group's partition of ``__consumer_offsets``, or of a transactional id's partition of
``__transaction_state``.

The first request creates the topic; clients retry until there is a leader.

Source: KafkaApis.handleFindCoordinatorRequest, getCoordinator@3.9.
"""

from typing import Any

from kafka_zk.broker.coordinator.internal_topic import InternalTopic
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation, group, transactional_id
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

_MANY_KEYS_SINCE = 4
_SHARE_SINCE = 6
_GROUP, _TRANSACTION, _SHARE = range(3)
_NOT_AUTHORIZED = {
    _GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    _TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_MESSAGES = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
"""Error messages before version 4; the message of any other error is its name."""

_NOWHERE = {"node_id": -1, "host": "", "port": -1}

Response = codec.response(ApiKey.FIND_COORDINATOR)


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return a node for each distinct key, or COORDINATOR_NOT_AVAILABLE."""
    key_type = request.key_type if header.api_version >= 1 else _GROUP
    if header.api_version < _MANY_KEYS_SINCE:
        code, node = _coordinator(services, context, header.api_version, key_type, request.key)
        return Response(error_code=code, error_message=_MESSAGES.get(code, code.name), **node)
    coordinators = []
    async for key in ResponseTurns(services.clock, context).each(dict.fromkeys(request.coordinator_keys)):
        code, node = _coordinator(services, context, header.api_version, key_type, key)
        coordinators.append(Response.Coordinator(key=key, error_code=code, **node))
    return Response(coordinators=coordinators)


def _coordinator(
    services: Services, context: RequestContext, version: int, key_type: int, key: str
) -> tuple[ErrorCode, dict[str, Any]]:
    if key_type not in (_GROUP, _TRANSACTION, _SHARE) or (key_type == _SHARE and version < _SHARE_SINCE):
        return ErrorCode.INVALID_REQUEST, _NOWHERE
    if key_type == _SHARE:
        if not services.authorizer.authorize(context, Operation.CLUSTER_ACTION, CLUSTER):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, _NOWHERE
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, _NOWHERE
    resource = group(key) if key_type == _GROUP else transactional_id(key)
    if not services.authorizer.authorize(context, Operation.DESCRIBE, resource):
        return _NOT_AUTHORIZED[key_type], _NOWHERE
    if key_type == _GROUP:
        return _leader(services, context, services.offsets_topic, services.coordinator.partition_for(key))
    return _leader(services, context, services.transaction_state_topic, services.transactions.partition_for(key))


def _leader(
    services: Services, context: RequestContext, topic: InternalTopic, partition: int
) -> tuple[ErrorCode, dict[str, Any]]:
    if not services.metadata.topics.get(topic.name):
        topic.create()
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, _NOWHERE
    info = services.metadata.partition(topic.name, partition)
    broker = None if info is None else services.metadata.brokers.get(info.leader)
    endpoint = None if broker is None else broker.endpoints.get(context.listener_name)
    if broker is None or endpoint is None:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, _NOWHERE
    return ErrorCode.NONE, {"node_id": broker.broker_id, "host": endpoint.host, "port": endpoint.port}
