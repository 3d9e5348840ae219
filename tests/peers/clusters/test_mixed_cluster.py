"""Brokers of ours and of Apache Kafka 3.9.1 replicate to each other in one cluster, with either kind as the controller.

Leaders of both kinds die, are paused beyond their session and leave cleanly while idempotent producers write with
acks=all and a group reads; afterwards, no acknowledged record is missing, and all replicas are equal, byte by byte.
"""

from itertools import product
from pathlib import Path

import pytest

from tests.peers.clusters.mixed_cluster import (
    APACHE_KAFKA,
    KINDS,
    described_by_kafka,
    described_by_us,
    members,
    mixed_properties,
    not_read,
)
from tests.peers.clusters.mixed_rounds import JvmRounds
from tests.peers.java import JavaFailed
from tests.peers.processes import wait_until
from tests.soak.replicated_cluster import OURS, SESSION_TIMEOUT_S, Broker, Kind, ReplicatedCluster
from tests.soak.replication_rounds import KILL, LONG_PAUSE, STOP, TOPIC, Fault

ACTIONS = (KILL, LONG_PAUSE, STOP)
SLICE, ALL = "slice", "all"
ALL_CASES = product(("3.9", "3.5", "2.6"), [ALL], KINDS)
CASES = [
    pytest.param("3.9", SLICE, OURS, marks=pytest.mark.peers),
    *(pytest.param(*case, marks=pytest.mark.soak) for case in ALL_CASES),
]

_PREFERRED_S = 60
_READ_S = 120


def _a_leader(cluster: ReplicatedCluster, kind: Kind) -> Broker:
    """A leader of this kind, if possible not the controller; waits until there is one."""
    def leading() -> list[Broker]:
        leaders = {state.leader for state in cluster.states(TOPIC).values()}
        return [each for each in cluster.brokers if each.kind is kind and each.broker_id in leaders]

    wait_until(lambda: bool(leading()), _PREFERRED_S, f"a leader that is {kind.name}")
    return min(leading(), key=lambda each: each.broker_id == cluster.controller())


def _happenings(how_much: str, controller: Kind) -> list[tuple[str, Kind]]:
    """The actions and kinds of a run: each action on each kind, or on one of them."""
    return [
        (action, kind)
        for (number, action), kind in product(enumerate(ACTIONS), KINDS)
        if how_much == ALL or (number % 2 == 0) == (kind is not controller)
    ]


def _tools_agree(cluster: ReplicatedCluster) -> bool:
    """The tools of both kinds, with brokers of both kinds, report the same state as ZooKeeper."""
    states = cluster.states(TOPIC)
    truth = {number: (str(state.leader), state.isr) for number, state in states.items()}
    for broker in (cluster.brokers[0], cluster.brokers[-1]):
        where = f"127.0.0.1:{broker.port}"
        try:
            tables = (described_by_kafka(where, TOPIC), described_by_us(where, TOPIC))
        except JavaFailed:
            return False  # while its session is expired, a broker of Kafka answers UNKNOWN_SERVER_ERROR
        for told in tables:
            if {number: (each.leader, set(each.isr)) for number, each in told.items()} != truth:
                return False
    return True


@pytest.mark.parametrize(("protocol", "how_much", "controller"), CASES, ids=lambda value: getattr(value, "name", value))
def test_both_kinds_lead_and_follow(
    peer_tools: None, tmp_path: Path, protocol: str, how_much: str, controller: Kind
) -> None:
    kinds = [OURS, OURS, APACHE_KAFKA, APACHE_KAFKA]
    with ReplicatedCluster(tmp_path, kinds, mixed_properties(protocol)) as cluster:
        cluster.move_controller(controller)
        rounds = JvmRounds(cluster, 0)
        group = members(cluster.bootstrap, TOPIC)
        try:
            for member in group:
                member.start()
            rounds.clients += group
            for action, kind in _happenings(how_much, controller):
                cluster.move_controller(controller)
                victim = _a_leader(cluster, kind)
                rounds.play([Fault(action, victim, victim, cluster, SESSION_TIMEOUT_S)])
            wait_until(lambda: _tools_agree(cluster), _READ_S, "the tools of both kinds to agree")
            found = rounds.judge()
            wait_until(lambda: not not_read(rounds, group), _READ_S, "the group to read everything")
        finally:
            rounds.close()
    print(rounds.story())
    assert not found, "\n".join(found)
