"""Chooses brokers for new partitions' replicas. Pure: the random start and shift are arguments.

Without racks, partition p begins at broker (start + p) mod n. The others follow at a distance that grows each time the
leaders have gone through all brokers, so partitions with the same leader have different followers. If all brokers have
a rack, racks alternate, and no rack gets a second replica of a partition before every rack has one.

Source: assignReplicasToBrokers, getRackAlternatedBrokerList in AdminUtils.java@3.9.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, count, zip_longest


class MissingRacks(Exception):
    """Some brokers have a rack and others do not."""

    def __init__(self, brokers: Sequence[int]) -> None:
        super().__init__(
            f"Not all brokers have rack information for replica rack aware assignment: broker.rack is missing for "
            f"{', '.join(map(str, brokers))}."
        )


def assign_by_racks(
    racks: Mapping[int, str | None],
    partition_count: int,
    replication_factor: int,
    start: int,
    shift: int,
    first_partition: int = 0,
) -> dict[int, list[int]]:
    """Like ``assign`` over the brokers in ``racks``, with replicas in as many different racks as possible.

    Raises: MissingRacks if only some brokers have one.
    """
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    if not known:
        return assign(sorted(racks), partition_count, replication_factor, start, shift, first_partition)
    if len(known) < len(racks):
        raise MissingRacks(sorted(racks.keys() - known.keys()))
    assert 1 <= replication_factor <= len(known), "more replicas than brokers"
    brokers = alternate_racks(known)
    assignment = {}
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % len(brokers) == 0:
            shift += 1
        assignment[partition] = _in_racks(
            brokers, known, replication_factor, (partition + start) % len(brokers), shift
        )
    return assignment


def alternate_racks(racks: Mapping[int, str]) -> list[int]:
    """The first broker of every rack, by name, then the second, and so on."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    turns = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for broker in chain.from_iterable(turns) if broker is not None]


def _in_racks(
    brokers: Sequence[int], racks: Mapping[int, str], replication_factor: int, first: int, shift: int
) -> list[int]:
    rack_count = len(set(racks.values()))
    replicas = [brokers[first]]
    used = {racks[replicas[0]]}
    for turn in count():
        if len(replicas) == replication_factor:
            break
        broker = brokers[(first + 1 + (shift * rack_count + turn) % (len(brokers) - 1)) % len(brokers)]
        if broker not in replicas and (racks[broker] not in used or len(used) == rack_count):
            replicas.append(broker)
            used.add(racks[broker])
    return replicas


def assign(
    brokers: Sequence[int],
    partition_count: int,
    replication_factor: int,
    start: int,
    shift: int,
    first_partition: int = 0,
) -> dict[int, list[int]]:
    """Replicas by partition, the preferred leader first.

    Args:
        brokers: sorted ids, at least ``replication_factor``.
        start: index of partition 0's leader, at least 0.
        shift: distance between the first and second replica, at least 0.
    """
    count = len(brokers)
    assert 1 <= replication_factor <= count, "more replicas than brokers"
    assignment = {}
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        assignment[partition] = [brokers[first]] + [
            brokers[(first + 1 + (shift + follower) % (count - 1)) % count]
            for follower in range(replication_factor - 1)
        ]
    return assignment
