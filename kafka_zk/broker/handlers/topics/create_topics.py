"""CreateTopics: handled by the controller, which responds when every partition has a leader, or after the timeout.

Source: KafkaApis.handleCreateTopicsRequest, ZkAdminManager.createTopics, DelayedCreatePartitions@3.9.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from kafka_zk.broker.handlers.error_map import EXPECTED, controller_error_code, error_message
from kafka_zk.broker.handlers.long_responses import EncodedArray, ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.handlers.topics.side_by_side import side_by_side
from kafka_zk.broker.metadata import topic_creation
from kafka_zk.broker.metadata.topic_creation import NewTopic
from kafka_zk.broker.quota.mutation_quota import MutationQuota
from kafka_zk.broker.security.authorizer import CLUSTER, Operation, topic
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.protocol.topic_names import CLUSTER_METADATA_TOPIC
from kafka_zk.storage.files.log_config import TOPIC_CONFIGS

_DEFAULTS_SINCE = 4  # KIP-464: -1 as the number of partitions or replicas
_CONFIGS_SINCE = 5  # KIP-525: the result contains the topic's configuration
_TOPIC_CONFIG_SOURCE = 1
_DEFAULT_CONFIG_SOURCE = 5

_PLAN_BYTES = 2048  # memory of a planned topic, measured
_REPLICAS_BYTES = 128  # memory of a planned partition
_RESULT_BYTES = 16 * 1024

Response = codec.response(ApiKey.CREATE_TOPICS)
Result = Response.CreatableTopicResult
Config = Result.CreatableTopicConfigs


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> list[Part]:
    """Return one result per topic, in order, even if a topic is repeated."""
    turns = ResponseTurns(services.clock, context)
    names = Counter(wanted.name for wanted in request.topics)
    wanted_topics = {wanted.name: wanted for wanted in request.topics}
    plans: list[NewTopic | Exception] = []
    planned_count = 0
    planned_names: dict[str, str] = {}
    for name, wanted in wanted_topics.items():
        await turns.make(_PLAN_BYTES)
        plan = _checked(services, context, header, wanted, names[name], planned_count, planned_names)
        if isinstance(plan, NewTopic):
            planned_count += len(plan.replicas)
            await turns.make(len(plan.replicas) * _REPLICAS_BYTES)
            if not request.validate_only:
                planned_names[topic_creation.collision_key(name)] = name
        plans.append(plan)
    created = [] if request.validate_only else [plan for plan in plans if isinstance(plan, NewTopic)]
    turns.keep_objects()
    quota = services.client_quotas.mutation_quota(context, header)
    outcomes = await side_by_side(services.clock, (_create(services, planned, quota) for planned in created))
    failed = {planned.name: o for planned, o in zip(created, outcomes, strict=True) if isinstance(o, Exception)}
    plans = [failed.get(name, plan) for name, plan in zip(wanted_topics, plans, strict=True)]
    created = [planned for planned in created if planned.name not in failed]
    if request.timeout_ms > 0 and created:
        await _wait_for_leaders(services, created, request.timeout_ms)
    timed_out = {planned.name for planned in created if not _has_leaders(services, planned)}
    outcome_of = dict(zip(wanted_topics, plans, strict=True))
    topics = EncodedArray(turns, header, "topics")
    for wanted in request.topics:
        await turns.make(_RESULT_BYTES)
        with_configs: bool | None = header.api_version >= _CONFIGS_SINCE
        if with_configs and not services.authorizer.may(context, Operation.DESCRIBE_CONFIGS, topic(wanted.name)):
            with_configs = None
        await topics.add(_result(wanted.name, outcome_of[wanted.name], timed_out, with_configs=with_configs))
    return await topics.body(Response(throttle_time_ms=quota.throttle_ms))


async def _create(services: Services, planned: NewTopic, quota: MutationQuota) -> None:
    quota.take(len(planned.replicas))
    await topic_creation.create(planned, services.topics)


def _checked(
    services: Services,
    context: RequestContext,
    header: RequestHeader,
    wanted: Any,
    times: int,
    planned_count: int,
    planned_names: Mapping[str, str],
) -> NewTopic | Exception:
    try:
        plan = _plan(services, context, header, wanted, times, planned_count)
        topic_creation.check_collision_in_request(wanted.name, planned_names)
        return plan
    except EXPECTED as error:
        return error


def _plan(
    services: Services, context: RequestContext, header: RequestHeader, wanted: Any, times: int, planned_count: int
) -> NewTopic:
    if not services.controller.is_active or not services.metadata.brokers:
        # This broker is not the controller, or does not know the live brokers yet, so the client must retry.
        raise ApiError(ErrorCode.NOT_CONTROLLER)
    if wanted.name == CLUSTER_METADATA_TOPIC:
        problem = f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)
    if times > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
    if not (
        services.authorizer.may(context, Operation.CREATE, CLUSTER)
        or services.authorizer.authorize(context, Operation.CREATE, topic(wanted.name))
    ):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    assignments = {entry.partition_index: entry.broker_ids for entry in wanted.assignments or ()}
    if header.api_version < _DEFAULTS_SINCE and not assignments:
        _refuse_defaults(wanted)
    default_count = services.config.num_partitions
    count = len(assignments) or (default_count if wanted.num_partitions == -1 else wanted.num_partitions)
    topic_creation.check_count(count)
    topic_creation.check_sum(count, planned_count)
    properties = {entry.name: entry.value for entry in wanted.configs or ()}
    return topic_creation.plan(
        wanted.name,
        wanted.num_partitions,
        wanted.replication_factor,
        assignments,
        properties,
        services.config,
        services.metadata,
        services.random,
    )


def _refuse_defaults(wanted: Any) -> None:
    if wanted.num_partitions <= 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if wanted.replication_factor <= 0:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")


def _result(
    name: str, outcome: NewTopic | Exception, timed_out: Collection[str], *, with_configs: bool | None
) -> Any:
    """``with_configs``: None if the client may not see them."""
    if isinstance(outcome, Exception):
        return _failure(name, outcome)
    if name in timed_out:
        return _failure(name, ApiError(ErrorCode.REQUEST_TIMED_OUT), outcome.topic_id)
    if with_configs is None:
        return _success_with_hidden_configs(outcome)
    return _success(outcome, with_configs=with_configs)


def _success_with_hidden_configs(planned: NewTopic) -> Any:
    return Result(
        name=planned.name,
        topic_id=uuids.from_text(planned.topic_id),
        error_message=None,
        topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )


def _success(planned: NewTopic, *, with_configs: bool) -> Any:
    return Result(
        name=planned.name,
        topic_id=uuids.from_text(planned.topic_id),
        error_message=None,
        num_partitions=len(planned.replicas),
        replication_factor=planned.replication_factor,
        configs=[
            Config(
                name=key,
                value=planned.config.property_text(key),
                config_source=_TOPIC_CONFIG_SOURCE if key in planned.properties else _DEFAULT_CONFIG_SOURCE,
            )
            for key in (TOPIC_CONFIGS if with_configs else ())
        ],
    )


def _failure(name: str, error: Exception, topic_id: str | None = None) -> Any:
    code, message = controller_error_code(error), error_message(error)
    uuid = uuids.ZERO if topic_id is None else uuids.from_text(topic_id)
    return Result(name=name, topic_id=uuid, error_code=code, error_message=message)


def _has_leaders(services: Services, planned: NewTopic) -> bool:
    partitions = services.metadata.topics.get(planned.name, {})
    return all(partition in partitions and partitions[partition].leader >= 0 for partition in planned.replicas)


async def _wait_for_leaders(services: Services, created: list[NewTopic], timeout_ms: int) -> None:
    def all_led() -> bool:
        return all(_has_leaders(services, planned) for planned in created)

    if not all_led():
        await services.metadata_purgatory.wait(["metadata"], all_led, timeout_ms)
