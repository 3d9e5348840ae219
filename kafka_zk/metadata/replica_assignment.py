"""Which brokers hold the replicas of a new topic. Pure: the random start and shift are arguments.

The first replica of partition p goes to broker (start + p) mod n; the others follow at a distance that grows by one
each time all brokers had a turn, so that two partitions with the same leader have different followers.

Source: AdminUtils.assignReplicasToBrokersRackUnaware@3.9.
"""

from collections.abc import Sequence


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
        brokers: ids of the brokers to use, sorted; at least ``replication_factor`` of them.
        start: index of the broker that leads partition ``first_partition`` … 0, any number of at least 0.
        shift: distance between the first and the second replica, at least 0.
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
