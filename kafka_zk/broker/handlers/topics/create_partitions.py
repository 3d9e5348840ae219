"""CreatePartitions: handled by the controller, which responds when every partition has a leader, or after the timeout.

Source: KafkaApis.handleCreatePartitionsRequest, ZkAdminManager.createPartitions,
AdminZkClient.createNewPartitionsAssignment@3.9.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from kafka_zk.broker.handlers.error_map import EXPECTED, controller_error_code, error_message
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.metadata import replica_assignment, topic_creation
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.quota.mutation_quota import MutationQuota
from kafka_zk.broker.security.authorizer import Operation, topic
from kafka_zk.protocol import codec, topic_names
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.registry.client.errors import NodeExists, NoNode
from kafka_zk.registry.znodes.topics import TopicAssignment

Response = codec.response(ApiKey.CREATE_PARTITIONS)
Result = Response.CreatePartitionsTopicResult


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Returns one result per topic."""
    wanted_topics = {wanted.name: wanted for wanted in request.topics}
    try:
        if not services.controller.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        deleting = set(await services.topics.deletions())
    except EXPECTED as error:
        return Response(results=[_failure(name, error) for name in wanted_topics])
    quota = services.client_quotas.mutation_quota(context, header)
    names = Counter(wanted.name for wanted in request.topics)
    results = []
    grown: dict[str, int] = {}
    added_count = 0
    async for name, wanted in ResponseTurns(services.clock, context).each(wanted_topics.items()):
        try:
            if names[name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            if not services.authorizer.authorize(context, Operation.ALTER, topic(name)):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "The topic authorization is failed.")
            if name in deleting:
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
            added_count += await _grow(services, wanted, added_count, None if request.validate_only else quota)
            grown[name] = wanted.count
            results.append(Result(name=name))
        except EXPECTED as error:
            results.append(_failure(name, error))
    if grown and not request.validate_only:
        await _wait_for_leaders(services, grown, request.timeout_ms)
        for result in results:
            if result.name in grown and not (request.timeout_ms > 0 and _all_led(services, result.name, grown)):
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
    return Response(throttle_time_ms=quota.throttle_ms, results=results)


def _failure(name: str, error: Exception) -> Any:
    return Result(name=name, error_code=controller_error_code(error), error_message=error_message(error))


async def _grow(services: Services, wanted: Any, others_count: int, quota: MutationQuota | None) -> int:
    """Add partitions to a topic and return their number. ``others_count``: number of partitions that this request adds
    to other topics. ``quota``: None to validate only."""
    existing = None
    if topic_names.is_legal_name(wanted.name):  # an illegal name could produce the path of another znode
        existing = (await services.topics.assignments([wanted.name])).get(wanted.name)
    if existing is None or not existing.partitions:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wanted.name}' does not exist.")
    topic_creation.check_count(wanted.count)
    topic_creation.check_sum(wanted.count - len(existing.partitions), others_count)
    added = plan(wanted, existing, services.metadata)
    if quota is None:
        return len(added)
    quota.take(len(added))
    try:
        await services.topics.add_partitions(wanted.name, added)
    except NoNode:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wanted.name}' does not exist.") from None
    except NodeExists:  # another client has changed the topic
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic '{wanted.name}' has just been changed.") from None
    return len(added)


def plan(wanted: Any, existing: TopicAssignment, metadata: MetadataCache) -> dict[int, list[int]]:
    """Validate the request and choose replicas for the new partitions. Raises: ApiError."""
    if existing.faults:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"The topic '{wanted.name}' cannot get more partitions before its znode is repaired: {existing.faults[0]}",
        )
    if existing.adding or existing.removing:
        raise ApiError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            f"A partition reassignment is in progress for the topic '{wanted.name}'.",
        )
    before = len(existing.partitions)
    topic_creation.check_count(wanted.count)
    if wanted.count < before:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {before} partitions, which is higher than the requested {wanted.count}.",
        )
    if wanted.count == before:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {before} partitions.")
    first_replicas = existing.partitions.get(0)
    if first_replicas is None:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Unexpected existing replica assignment for topic '{wanted.name}', partition id 0 is missing.",
        )
    brokers = sorted(metadata.brokers)
    if wanted.assignments is not None:
        given = [list(assignment.broker_ids) for assignment in wanted.assignments]
        return _check_given(given, before, wanted.count - before, len(first_replicas), brokers)
    if len(first_replicas) > len(brokers):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {len(first_replicas)} larger than available brokers: {len(brokers)}.",
        )
    start = next((index for index, broker in enumerate(brokers) if broker >= first_replicas[0]), 0)
    try:
        return replica_assignment.assign_by_racks(
            metadata.racks, wanted.count - before, len(first_replicas), start, start, before
        )
    except replica_assignment.MissingRacks as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None


def _check_given(
    given: list[list[int]], first: int, count: int, replication_factor: int, brokers: list[int]
) -> dict[int, list[int]]:
    """Check the client's replicas for ``count`` partitions from ``first`` on."""

    def refuse(problem: str) -> ApiError:
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)

    unknown = {broker for replicas in given for broker in replicas} - set(brokers)
    if unknown:
        raise refuse(f"Unknown broker(s) in replica assignment: {_join(sorted(unknown))}.")
    if len(given) != count:
        raise refuse(f"Increasing the number of partitions by {count} but {len(given)} assignments provided.")
    for partition, replicas in enumerate(given, first):
        if not replicas:
            raise refuse(f"Cannot have replication factor of 0 for partition id {partition}.")
        if len(set(replicas)) != len(replicas):
            raise refuse(
                f"Duplicate brokers not allowed in replica assignment: {_join(replicas)} for partition id {partition}."
            )
    bad = {
        partition: len(replicas)
        for partition, replicas in enumerate(given, first)
        if len(replicas) != replication_factor
    }
    if bad:
        raise refuse(
            f"Inconsistent replication factor between partitions, partition 0 has {replication_factor} while "
            f"partitions [{_join(bad)}] have replication factors [{_join(bad.values())}], respectively."
        )
    return dict(enumerate(given, first))


def _join(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _all_led(services: Services, name: str, grown: dict[str, int]) -> bool:
    partitions = services.metadata.topics.get(name, {})
    return len(partitions) >= grown[name] and all(partition.leader >= 0 for partition in partitions.values())


async def _wait_for_leaders(services: Services, grown: dict[str, int], timeout_ms: int) -> None:
    def all_led() -> bool:
        return all(_all_led(services, name, grown) for name in grown)

    if timeout_ms > 0 and not all_led():
        await services.metadata_purgatory.wait(["metadata"], all_led, timeout_ms)
