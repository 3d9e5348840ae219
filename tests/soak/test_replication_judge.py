"""The judge of the replication campaign detects brokers that lack a safeguard, in the outages that need it.

The same outages do not harm brokers with all safeguards.
"""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.peers.processes import wait_until
from tests.soak import faulty_replica
from tests.soak.faulty_replica import STALE_ISR, TO_WATERMARK, TOO_FEW, UNFENCED
from tests.soak.replicated_cluster import SESSION_TIMEOUT_S, Broker, Kind, ReplicatedCluster
from tests.soak.replication_rounds import TOPIC, ReplicationRounds

_WAIT_S = 30
_TIME_TO_READ_S = 8
_ACKNOWLEDGED_S = 2

Outage = Callable[[ReplicatedCluster, ReplicationRounds], list[Broker]]


def _command(properties: Path) -> list[str]:
    return [sys.executable, "-m", faulty_replica.__name__, str(properties)]


_KIND = Kind("faulty", _command, restarts_at_once=True)


def _in_order(cluster: ReplicatedCluster, last: Callable[[Broker, Broker, Broker], bool]) -> tuple[int, list[Broker]]:
    """A partition and its replicas, the leader first, that meet a condition."""
    for number, state in cluster.states(TOPIC).items():
        replicas = [cluster.brokers[broker_id] for broker_id in state["isr"]]
        if replicas[0].broker_id == state.leader and last(*replicas):
            return number, replicas
    raise AssertionError(f"no partition fits: {cluster.states(TOPIC)}, controller {cluster.controller()}")


def a_leader_dies_before_its_followers_have_all(cluster: ReplicatedCluster, rounds: ReplicationRounds) -> list[Broker]:
    _, [leader, *followers] = _in_order(cluster, lambda *_: True)
    for follower in followers:
        follower.pause()
    with contextlib.suppress(TimeoutError):  # the expected outcome
        rounds.wait_acknowledged(300, _ACKNOWLEDGED_S)
    leader.kill()
    for follower in followers:
        follower.resume()
    rounds.wait_led([leader.broker_id], _WAIT_S)
    return [leader]


def two_leaders_die_one_after_the_other(cluster: ReplicatedCluster, rounds: ReplicationRounds) -> list[Broker]:
    """The third replica follows the second only for a moment, and cannot fetch from it."""
    number, [first, second, _] = _in_order(cluster, lambda _, __, third: third.broker_id == cluster.controller())
    first.kill()
    wait_until(lambda: first.broker_id not in cluster.registered(), _WAIT_S, "the end of the session", interval_s=0.005)
    second.pause()
    wait_until(
        lambda: cluster.states(TOPIC)[number].leader == second.broker_id, _WAIT_S, "the second leader", interval_s=0.005
    )
    with contextlib.suppress(TimeoutError):  # the third broker is notified
        rounds.wait_acknowledged(1, 1)
    second.kill()
    with contextlib.suppress(TimeoutError):  # if the third has left the ISR, which is allowed, there is no leader
        rounds.wait_led([first.broker_id, second.broker_id], 2 * SESSION_TIMEOUT_S)
    return [first, second]


def who_was_cut_off_remains_alone(cluster: ReplicatedCluster, rounds: ReplicationRounds) -> list[Broker]:
    _, [leader, second, third] = _in_order(cluster, lambda leader, *_: leader.broker_id != cluster.controller())
    leader.door.close_for(third.broker_id)
    with contextlib.suppress(TimeoutError):
        rounds.wait_acknowledged(10**6, 2 * SESSION_TIMEOUT_S)
    leader.kill()
    second.kill()
    leader.door.open_for(third.broker_id)
    with contextlib.suppress(TimeoutError):  # the expected outcome
        rounds.wait_led([leader.broker_id, second.broker_id], 3 * SESSION_TIMEOUT_S)
    return [leader, second]


def the_controller_dies(cluster: ReplicatedCluster, rounds: ReplicationRounds) -> list[Broker]:
    controller = cluster.brokers[cluster.controller()]
    controller.kill()
    rounds.wait_led([controller.broker_id], _WAIT_S)
    return [controller]


@pytest.mark.integration
@pytest.mark.embedded
@pytest.mark.soak
@pytest.mark.parametrize("is_faulty", [True, False], ids=["without", "with"])
@pytest.mark.parametrize(
    ("fault", "outage", "said"),
    [
        (TOO_FEW, a_leader_dies_before_its_followers_have_all, "acknowledged records were lost"),
        (TO_WATERMARK, two_leaders_die_one_after_the_other, "acknowledged records were lost"),
        (STALE_ISR, who_was_cut_off_remains_alone, "acknowledged records were lost"),
        (UNFENCED, the_controller_dies, "two sessions wrote as the controller"),
    ],
    ids=["high watermark", "truncation", "ISR", "controller"],
)
def test_a_broker_that_lacks_a_safeguard_is_found(
    fault: str, outage: Outage, said: str, is_faulty: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(faulty_replica.VARIABLE, fault if is_faulty else "")
    with ReplicatedCluster(tmp_path, [_KIND] * 3) as cluster:
        rounds = ReplicationRounds(cluster, 0)
        try:
            for broker in outage(cluster, rounds):
                broker.start()
            rounds.wait_registered()
            with contextlib.suppress(TimeoutError):
                rounds.wait_full(_WAIT_S)
            found = rounds.judge(_TIME_TO_READ_S if is_faulty else _WAIT_S)
        finally:
            rounds.close()
    if is_faulty:
        assert any(said in each for each in found), "\n".join(found)
    else:
        assert not found, "\n".join(found)
