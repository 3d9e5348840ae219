"""CreateTopics: only the controller's broker answers it, when every partition has a leader or time is up.

Source: KafkaApis.handleCreateTopicsRequest, ZkAdminManager.createTopics, DelayedCreatePartitions@3.9.
"""

from collections import Counter
from typing import Any

from kafka_zk import topic_creation, uuids
from kafka_zk.authorizer import CLUSTER, Operation, topic
from kafka_zk.handlers.error_map import EXPECTED, error_code, error_message
from kafka_zk.handlers.services import Services
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.topic_creation import NewTopic
from storage.log_config import TOPIC_CONFIGS

_DEFAULTS_SINCE = 4  # KIP-464: -1 partitions or replicas
_TOPIC_CONFIG_SOURCE = 1
_DEFAULT_CONFIG_SOURCE = 5

Response = codec.response(ApiKey.CREATE_TOPICS)
Result = Response.CreatableTopicResult
Config = Result.CreatableTopicConfigs


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """One result per topic of the request, in its order."""
    names = Counter(wanted.name for wanted in request.topics)
    results = []
    created: list[NewTopic] = []
    for name in names:
        wanted = next(entry for entry in request.topics if entry.name == name)
        try:
            if names[name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Create topics request contains duplicate topics.")
            planned = _plan(services, context, header, wanted)
            if not request.validate_only:
                await topic_creation.create(planned, services.topics)
                created.append(planned)
            results.append(_success(planned))
        except EXPECTED as error:
            results.append(_failure(name, error))
    if request.timeout_ms > 0 and created:
        await _wait_for_leaders(services, created, request.timeout_ms)
    timed_out = {planned.name for planned in created if not _has_leaders(services, planned)}
    for result in results:
        if result.name in timed_out:
            result.error_code, result.error_message = ErrorCode.REQUEST_TIMED_OUT, None
    return Response(throttle_time_ms=0, topics=results)


def _plan(services: Services, context: RequestContext, header: RequestHeader, wanted: Any) -> NewTopic:
    if not services.controller.is_active or not services.metadata.brokers:
        # A controller that was elected a moment ago has not told this broker yet who is alive: ask again.
        raise ApiError(ErrorCode.NOT_CONTROLLER)
    if not (
        services.authorizer.authorize(context, Operation.CREATE, CLUSTER)
        or services.authorizer.authorize(context, Operation.CREATE, topic(wanted.name))
    ):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assignments = {entry.partition_index: entry.broker_ids for entry in wanted.assignments or ()}
    if header.api_version < _DEFAULTS_SINCE and not assignments:
        _refuse_defaults(wanted)
    properties = {entry.name: entry.value for entry in wanted.configs or ()}
    return topic_creation.plan(
        wanted.name,
        wanted.num_partitions,
        wanted.replication_factor,
        assignments,
        properties,
        services.config,
        services.metadata,
    )


def _refuse_defaults(wanted: Any) -> None:
    if wanted.num_partitions <= 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if wanted.replication_factor <= 0:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")


def _success(planned: NewTopic) -> Any:
    return Result(
        name=planned.name,
        topic_id=uuids.from_text(planned.topic_id),
        error_code=0,
        error_message=None,
        topic_config_error_code=0,
        num_partitions=len(planned.replicas),
        replication_factor=planned.replication_factor,
        configs=[
            Config(
                name=key,
                value=planned.config.property_text(key),
                read_only=False,
                config_source=_TOPIC_CONFIG_SOURCE if key in planned.properties else _DEFAULT_CONFIG_SOURCE,
                is_sensitive=False,
            )
            for key in TOPIC_CONFIGS
        ],
    )


def _failure(name: str, error: Exception) -> Any:
    return Result(
        name=name, topic_id=uuids.ZERO, error_code=error_code(error), error_message=error_message(error), configs=[]
    )


def _has_leaders(services: Services, planned: NewTopic) -> bool:
    partitions = services.metadata.topics.get(planned.name, {})
    return all(partition in partitions and partitions[partition].leader >= 0 for partition in planned.replicas)


async def _wait_for_leaders(services: Services, created: list[NewTopic], timeout_ms: int) -> None:
    def all_led() -> bool:
        return all(_has_leaders(services, planned) for planned in created)

    if not all_led():
        await services.metadata_purgatory.wait(["metadata"], all_led, timeout_ms)
