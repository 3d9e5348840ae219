"""DeleteTopics: requests deletions in ``/admin/delete_topics`` and waits until the topics are gone.

Source: KafkaApis.handleDeleteTopicsRequest, ZkAdminManager.deleteTopics@3.9.
"""

import uuid
from typing import Any

from kafka_zk.broker.handlers.error_map import controller_error_code, error_message
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.handlers.topics.side_by_side import side_by_side
from kafka_zk.broker.quota.mutation_quota import MutationQuota
from kafka_zk.broker.security.authorizer import Operation, topic
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

_BY_ID_SINCE = 6
_DISABLED_SINCE = 3  # older clients do not know TOPIC_DELETION_DISABLED

Response = codec.response(ApiKey.DELETE_TOPICS)
Result = Response.DeletableTopicResult


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return one result per topic, by name or id."""
    if header.api_version >= _BY_ID_SINCE:
        wanted = [(state.name, state.topic_id or uuids.ZERO) for state in request.topics]
    else:
        wanted = [(name, uuids.ZERO) for name in request.topic_names]
    if any(name is not None and topic_id != uuids.ZERO for name, topic_id in wanted):
        return Response(responses=[_refused(name, topic_id) for name, topic_id in wanted])
    names = [name or services.metadata.topic_names.get(topic_id) for name, topic_id in wanted]
    ids = [services.metadata.topic_ids.get(name or "", uuids.ZERO) for name in names]  # looked up before the deletion
    quota = services.client_quotas.mutation_quota(context, header)
    outcomes = await side_by_side(
        services.clock,
        (
            _delete(services, context, header.api_version, name, quota, by_id=topic_id != uuids.ZERO)
            for name, (_, topic_id) in zip(names, wanted, strict=True)
        ),
    )
    results = []
    deleted = []
    asked = zip(wanted, names, ids, outcomes, strict=True)
    async for (asked_name, asked_id), name, topic_id, error in ResponseTurns(services.clock, context).each(asked):
        if error is None:
            deleted.append(name)
            results.append(Result(name=name, topic_id=topic_id))
        else:
            code, message = controller_error_code(error), error_message(error)
            shown = asked_name if isinstance(error, _Hidden) else name
            results.append(Result(name=shown, topic_id=asked_id, error_code=code, error_message=message))
    await _wait_until_gone(services, deleted, request.timeout_ms)
    for result in results:
        if result.error_code == 0 and result.name in services.metadata.topics:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
    return Response(throttle_time_ms=quota.throttle_ms, responses=results)


def _refused(name: str | None, topic_id: uuid.UUID) -> Any:
    """The error for a request with both name and id. They could identify different topics if the topic was
    recreated."""
    message = "Topic name and topic ID can not both be specified."
    return Result(name=name, topic_id=topic_id, error_code=ErrorCode.INVALID_REQUEST, error_message=message)


class _Hidden(ApiError):
    """An error that must not reveal the topic's name, because the client may not describe the topic, or because its
    permission was not checked."""


async def _delete(
    services: Services,
    context: RequestContext,
    version: int,
    name: str | None,
    quota: MutationQuota,
    *,
    by_id: bool,
) -> None:
    if not services.controller.is_active:
        raise _Hidden(ErrorCode.NOT_CONTROLLER)
    if not services.config.delete_topic_enable:
        raise _Hidden(
            ErrorCode.TOPIC_DELETION_DISABLED if version >= _DISABLED_SINCE else ErrorCode.INVALID_REQUEST
        )
    if name is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    if by_id and not services.authorizer.authorize(context, Operation.DESCRIBE, topic(name)):
        raise _Hidden(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if not services.authorizer.authorize(context, Operation.DELETE, topic(name)):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if name not in services.metadata.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    quota.take(len(services.metadata.topics[name]))
    await services.topics.request_deletion(name)


async def _wait_until_gone(services: Services, names: list[str | None], timeout_ms: int) -> None:
    def all_gone() -> bool:
        return not any(name in services.metadata.topics for name in names)

    if timeout_ms > 0 and not all_gone():
        await services.metadata_purgatory.wait(["metadata"], all_gone, timeout_ms)
