"""LeaderAndIsr: the controller assigns leader and follower roles to this broker.

Source: ReplicaManager.becomeLeaderOrFollower@3.9.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from kafka_zk.base.turns import in_slices
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.inter_broker.authorization import confirm_controller, refusal
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.metadata.cache import PartitionInfo
from kafka_zk.broker.replica.manager import LeaderState
from kafka_zk.broker.replica.partition import LeaderAndIsrPartitionState
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode, ProtocolError
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.protocol.topic_names import is_legal_name
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.znodes.json_codec import MOST_REPLICAS

PARTITIONS_A_PORTION = 250
"""Number of partitions that are changed together, which takes about 20 ms; then the fetchers can run."""

_GROUPED_SINCE = 2
_TOPIC_IDS_SINCE = 5

Response = codec.response(ApiKey.LEADER_AND_ISR)
PartitionError = Response.LeaderAndIsrPartitionError


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return each partition's code. First reads the topics' configurations from ZooKeeper, in one pipeline. If an ACL
    hides a configuration, the topic keeps its previous one.

    Raises: ProtocolError if ZooKeeper is unavailable, which closes the controller's connection.
    """
    await confirm_controller(services, context, request.controller_epoch)
    async with services.replicas.state_changes:
        return await _handle(services, context, header, request)


async def _handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    refused = refusal(services, context, request.controller_epoch, request.broker_epoch)
    if refused is not ErrorCode.NONE:
        return Response(error_code=refused)
    everything = list(_partition_states(request, header.api_version))
    wanted = [entry for entry in everything if _is_possible(entry[0], entry[2])]
    try:
        properties = await services.configs.synced_entities(
            "topics", sorted({topic for topic, _, _ in wanted})
        )
    except RegistryError as error:  # no error code makes the controller retry, but a closed connection does
        raise ProtocolError(f"the topics' configurations cannot be read: {error}") from error
    # A newer controller may have sent requests.
    refused = refusal(services, context, request.controller_epoch, request.broker_epoch)
    if refused is not ErrorCode.NONE:
        return Response(error_code=refused)
    states = [
        LeaderState(
            TopicPartition(topic, state.partition_index), topic_id, _partition_state(state), properties.get(topic)
        )
        for topic, topic_id, state in wanted
    ]
    codes = {TopicPartition(topic, s.partition_index): ErrorCode.INVALID_TOPIC_EXCEPTION for topic, _, s in everything}
    for start in range(0, len(states), PARTITIONS_A_PORTION):
        codes.update(await _carry_out(services, states[start : start + PARTITIONS_A_PORTION]))
    if header.api_version >= _TOPIC_IDS_SINCE:
        return Response(topics=_by_topic(request, codes))
    errors = [
        PartitionError(topic_name=tp.topic, partition_index=tp.partition, error_code=code) for tp, code in codes.items()
    ]
    return Response(partition_errors=errors)


def _is_possible(topic: str, state: Any) -> bool:
    """True if the state is safe: topic names become paths, which must not lead outside the log directory. The
    replicas are limited, because all replicas of a partition are handled in one turn."""
    return (
        is_legal_name(topic)
        and state.partition_index >= 0
        and max(len(state.replicas), len(state.isr)) <= MOST_REPLICAS
    )


async def _carry_out(services: Services, states: Sequence[LeaderState]) -> Sequence[tuple[TopicPartition, ErrorCode]]:
    """Change the roles of some partitions; then let the fetchers run. If this broker leads new partitions, the
    followers' waiting fetches end, so that the next fetches include these partitions, which the followers have usually
    been assigned by now."""
    async with services.replicas.role_changes:
        codes = await in_slices(services.clock, _carried_out(services, states))
    taken = zip(states, codes, strict=True)
    if any(state.leader == services.broker_id and code is ErrorCode.NONE for (_, _, state, _), (_, code) in taken):
        services.replicas.follower_waits.newly_led()
    return codes


def _carried_out(services: Services, states: Sequence[LeaderState]) -> Iterator[tuple[TopicPartition, ErrorCode]]:
    """Change the roles, and update the metadata, so that clients see a new leader as soon as this broker uses it."""
    answers = services.replicas.become_leader_or_follower(states)
    for (tp, code), (_, topic_id, state, _) in zip(answers, states, strict=True):
        if code is ErrorCode.NONE:
            services.metadata.new_leader(tp.topic, topic_id, tp.partition, _partition_info(state))
        yield tp, code


def _partition_info(state: LeaderAndIsrPartitionState) -> PartitionInfo:
    return PartitionInfo(
        state.controller_epoch,
        state.leader,
        state.leader_epoch,
        list(state.isr),
        state.partition_epoch,
        list(state.replicas),
        offline_replicas=[],
    )


def _partition_states(request: Any, version: int) -> Iterator[tuple[str, Any, Any]]:
    if version < _GROUPED_SINCE:
        for state in request.ungrouped_partition_states:
            yield state.topic_name, uuids.ZERO, state
        return
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, topic.topic_id or uuids.ZERO, state


def _partition_state(state: Any) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        state.leader,
        state.leader_epoch,
        state.controller_epoch,
        state.partition_epoch,
        tuple(state.isr),
        tuple(state.replicas),
        bool(state.is_new),
    )


def _by_topic(request: Any, codes: dict[TopicPartition, ErrorCode]) -> list[Any]:
    return [
        Response.LeaderAndIsrTopicError(
            topic_id=topic.topic_id,
            partition_errors=[
                PartitionError(
                    partition_index=state.partition_index,
                    error_code=codes[TopicPartition(topic.topic_name, state.partition_index)],
                )
                for state in topic.partition_states
            ],
        )
        for topic in request.topic_states
    ]
