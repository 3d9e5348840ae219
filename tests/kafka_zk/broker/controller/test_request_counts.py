"""The cost of a change: requests to ZooKeeper and requests of the controller to its brokers, on the in-memory
ZooKeeper.

The table is in docs/explanation/control-plane.md. A change that lowers a number updates the table.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.operations import AlterPartitionReassignments, ElectLeaders
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.registry.znodes import topics as znodes
from tests.kafka_zk.broker.controller.world import Cluster

PAGE = Path(__file__).parents[4] / "docs" / "explanation" / "control-plane.md"

TOPICS, PARTITIONS = 3, 200
BROKERS = (0, 1, 2)  # broker 0 is the controller
_READS = ("get", "get_all", "exists", "children")
_COLUMNS = ("ZooKeeper reads", "ZooKeeper writes", "LeaderAndIsr", "UpdateMetadata", "StopReplica")
_CONTROL = (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA)


def _replicas(number: int) -> list[int]:
    return [(number + place) % len(BROKERS) for place in range(len(BROKERS))]


def _create(cluster: Cluster, prefix: str = "t") -> None:
    for number in range(TOPICS):
        topic_id = f"{number:021d}Q"
        cluster.create(f"{prefix}{number}", {each: _replicas(each) for each in range(PARTITIONS)}, topic_id)


def _grow(cluster: Cluster) -> None:
    cluster.scheduler.run(cluster.topics.add_partitions("t0", {PARTITIONS + n: _replicas(n) for n in range(100)}))


def _stop_cleanly(cluster: Cluster) -> None:
    """Stop as a broker does after SIGTERM: when the response arrives, other brokers lead its partitions."""
    broker = cluster.brokers[2]
    left = cluster.scheduler.run(cluster.controller.handle_controlled_shutdown(2, broker.epoch))
    assert left == []


def _reassign(cluster: Cluster) -> None:
    moved = {TopicPartition("t1", number): _replicas(number)[:2] for number in range(PARTITIONS)}
    outcomes = cluster.scheduler.run(cluster.controller.carry_out(AlterPartitionReassignments(moved)))
    assert set(outcomes.values()) == {None}


def _elect_preferred(cluster: Cluster) -> None:
    tps = [TopicPartition("t2", number) for number in range(PARTITIONS)]
    cluster.scheduler.run(cluster.controller.carry_out(ElectLeaders(tps, unclean=False)))


def _killed(cluster: Cluster) -> None:
    _create(cluster)
    _kill_and_wait(cluster, 2)


def _killed_and_back(cluster: Cluster) -> None:
    _killed(cluster)
    cluster.restart(2)
    _rejoin(cluster)


CHANGES: dict[str, tuple[Callable[[Cluster], object], Callable[[Cluster], object]]] = {
    "600 partitions are created": (lambda cluster: None, _create),
    "100 are added to one topic": (_create, _grow),
    "a broker stops cleanly": (_create, _stop_cleanly),
    "a broker dies": (_create, lambda cluster: cluster.kill(2)),
    "it comes back": (_killed, lambda c: c.restart(2)),
    "66 get their preferred leaders": (
        _killed_and_back,
        _elect_preferred,
    ),
    "200 give a replica up": (_create, _reassign),
    "200 are deleted": (_create, lambda cluster: cluster.delete("t0")),
    "the controller resigns": (_create, lambda c: c.scheduler.run(c.controller.shutdown())),
    "the controller dies": (_create, lambda cluster: cluster.kill(0)),
}
"""For each change: the preparation, and the step whose requests are counted."""


def _kill_and_wait(cluster: Cluster, broker_id: int) -> None:
    cluster.settle()
    cluster.kill(broker_id)
    cluster.settle(10_000)


def _rejoin(cluster: Cluster) -> None:
    """All replicas of t2 join the ISR: the leaders write it themselves and notify the controller."""
    cluster.settle()
    for number in range(PARTITIONS):
        info = cluster.state("t2", number)
        assert info is not None
        info.isr[:] = _replicas(number)
        cluster.set(znodes.state_path("t2", number), znodes.encode_state(info))


def _counts(before: Callable[[Cluster], object], change: Callable[[Cluster], object]) -> Counter[str]:
    """Requests of all brokers to ZooKeeper, and the controller's requests to all brokers with their partitions."""
    cluster = Cluster(len(BROKERS), seed=1)
    before(cluster)
    cluster.settle()
    for broker in cluster.brokers:
        broker.requests.clear()
    asked = {broker: broker.client.counts.copy() for broker in cluster.brokers}
    change(cluster)
    cluster.settle(20_000)
    counts: Counter[str] = Counter()
    for broker in cluster.brokers:
        for kind, count in (broker.client.counts - asked.get(broker, Counter())).items():
            if kind != "sync":
                counts["ZooKeeper reads" if kind in _READS else "ZooKeeper writes"] += count
        for api_key, request in broker.requests:
            column = _COLUMNS[2 + _CONTROL.index(api_key)]
            counts[column] += 1
            counts[f"{column} partitions"] += sum(len(topic.partition_states) for topic in request.topic_states)
    return counts


def table() -> str:
    """Returns a Markdown table. For the controller's requests, it also shows the total number of their partitions."""
    rows = [f"| | {' | '.join(_COLUMNS)} |", f"|---|{'---|' * len(_COLUMNS)}"]
    for name, change in CHANGES.items():
        counts = _counts(*change)
        cells = [str(counts[column]) for column in _COLUMNS[:2]]
        cells += [f"{counts[c]} ({counts[f'{c} partitions']:,})" if counts[c] else "0" for c in _COLUMNS[2:]]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


@pytest.mark.slow
def test_requests_per_change_are_those_of_the_page() -> None:
    """Three brokers, three topics of 200 partitions with three replicas each."""
    counted = table()
    assert counted in PAGE.read_text(), f"docs/explanation/control-plane.md has other numbers:\n\n{counted}\n"
