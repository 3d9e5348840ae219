"""Brokers of a replicated cluster are killed, and the clients of all partitions soon continue."""

from pathlib import Path

import pytest

from tests.soak.kill_rounds import PROPERTIES, KillRounds, Wait, longest_wait, starting_s
from tests.soak.replicated_cluster import ReplicatedCluster
from tests.soak.replication_clients import Gap
from tests.soak.replication_rounds import play_campaign

ROUNDS = 10
"""Maximum number of rounds per seed; the next seed begins with new brokers."""


@pytest.mark.integration
@pytest.mark.embedded
@pytest.mark.soak
def test_no_partition_is_without_acknowledgements_for_long(
    tmp_path: Path, pytestconfig: pytest.Config, process_campaign_seed: int
) -> None:
    """``--rounds 30`` means three seeds with ten rounds each."""
    seed, count = process_campaign_seed, min(ROUNDS, pytestconfig.getoption("rounds"))
    play_campaign(lambda cluster: KillRounds(cluster, seed), count, ReplicatedCluster(tmp_path, properties=PROPERTIES))


@pytest.mark.parametrize(("led_s", "seconds"), [(9.0, 5.0), (12.0, 3.0), (15.0, 0.0), (16.0, 0.0)])
def test_of_a_gap_what_is_after_the_election_is_the_clients(led_s: float, seconds: float) -> None:
    gap = Gap(10.0, 15.0, "ours", 0)
    assert (gap.seconds, gap.seconds_after(led_s)) == (5.0, seconds)


def test_the_longest_wait_of_a_program_may_begin_before_a_kill() -> None:
    times_ns = {"init": 0, "begin": 20, "commit": 21, "committed": 29, "aborted": 30}
    events = [{"event": event, "at": at * 10**9} for event, at in times_ns.items()]
    assert longest_wait(events, 5 * 10**9) == Wait(20.0, "init", "begin")
    assert longest_wait(events, 25 * 10**9) == Wait(8.0, "commit", "committed")
    assert longest_wait(events, 30 * 10**9) is None


def test_a_successor_that_starts_is_told_apart_from_a_call_that_waits() -> None:
    times_ns = [("send", 0), ("failed", 10), ("init", 14), ("failed", 20), ("now", 23)]
    events = [{"event": event, "at": at * 10**9} for event, at in times_ns]
    assert starting_s(events, 0) == 7.0
    assert starting_s(events, 12 * 10**9) == 5.0
