"""Moves partition leaders, and thereby coordinators, with the controller's own operations.

For a partition with several replicas, the controller makes another in-sync replica the preferred leader and then runs a
preferred leader election. A partition with one replica is reassigned to another broker.
"""

from collections.abc import Collection, Mapping

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.operations import AlterPartitionReassignments, ElectLeaders
from kafka_zk.broker.faults.errors import InvalidFault, WrongBroker
from kafka_zk.broker.group.partitions import OFFSETS_TOPIC
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.metadata.cache import PartitionInfo
from kafka_zk.protocol.errors import ApiError

_TIMEOUT_MS = 10_000


async def move_leaders(services: Services, tps: Collection[TopicPartition]) -> None:
    """Move the leader of each partition. Returns when this broker, which must be the controller, knows the new leaders.

    Raises: WrongBroker, InvalidFault.
    """
    check_is_controller(services)
    targets = {tp: _target(services, tp) for tp in tps}
    elected = [tp for tp, replicas in targets.items() if len(replicas) > 1]
    try:
        _raise_first(await services.controller.carry_out(AlterPartitionReassignments(targets)))
        await services.controller.carry_out(ElectLeaders(elected, unclean=False))
    except ApiError as error:
        raise WrongBroker(f"broker {services.broker_id} is no longer the controller: {error.code.name}") from error
    if not await _are_known(services, {tp: replicas[0] for tp, replicas in targets.items()}):
        raise InvalidFault(f"the leaders of {_named(tps)} did not move within {_TIMEOUT_MS // 1000} s")


def check_is_controller(services: Services) -> None:
    """Raises: WrongBroker."""
    if not services.controller.is_active:
        raise WrongBroker(f"broker {services.broker_id} is not the controller")


def coordinators_partitions(services: Services, group: str | None) -> list[TopicPartition]:
    """The partitions whose leaders coordinate the group, or all groups if ``group`` is None. Raises: InvalidFault."""
    known = services.metadata.topics.get(OFFSETS_TOPIC)
    if not known:
        raise InvalidFault("no group exists yet: let a consumer join its group first")
    numbers = sorted(known) if group is None else [services.coordinator.partition_for(group)]
    return [TopicPartition(OFFSETS_TOPIC, number) for number in numbers]


def _target(services: Services, tp: TopicPartition) -> tuple[int, ...]:
    """The partition's new replicas, the new leader first. Raises: InvalidFault."""
    info = services.metadata.partition(tp.topic, tp.partition)
    if info is None:
        raise InvalidFault(f"partition {tp} does not exist")
    if info.leader < 0:
        raise InvalidFault(f"partition {tp} has no leader")
    if len(info.replicas) > 1:
        others = [each for each in _after(info) if each in info.isr]
        if not others:
            raise InvalidFault(f"partition {tp} has no other in-sync replica")
        return (others[0], *(each for each in info.replicas if each != others[0]))
    brokers = sorted(services.metadata.brokers.keys() - {info.leader})
    if not brokers:
        raise InvalidFault(f"the leader of {tp} cannot move: the cluster has one broker")
    return (next((each for each in brokers if each > info.leader), brokers[0]),)


def _after(info: PartitionInfo) -> list[int]:
    """The other replicas, beginning with the replica after the leader."""
    place = info.replicas.index(info.leader) if info.leader in info.replicas else -1
    return [each for each in info.replicas[place + 1 :] + info.replicas[: place + 1] if each != info.leader]


async def _are_known(services: Services, leaders: Mapping[TopicPartition, int]) -> bool:
    def all_known() -> bool:
        infos = [(services.metadata.partition(*tp), leader) for tp, leader in leaders.items()]
        return all(info is not None and info.leader == leader for info, leader in infos)

    if not all_known():
        await services.metadata_purgatory.wait(["metadata"], all_known, _TIMEOUT_MS)
    return all_known()


def _raise_first(outcomes: Mapping[TopicPartition, ApiError | None]) -> None:
    for tp, error in outcomes.items():
        if error is not None:
            raise InvalidFault(f"partition {tp}: {error.code.name}")


def _named(tps: Collection[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(tps)[:3]))
