"""Three or five brokers are killed, paused and cut off while idempotent producers write with acks=all."""

from pathlib import Path

import pytest

from tests.black_hole import black_hole
from tests.soak.faulty_machines import FaultyMachinesCluster, FaultyMachinesRounds
from tests.soak.replicated_cluster import OURS, ReplicatedCluster
from tests.soak.replication_rounds import ReplicationRounds, play_campaign

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

FIVE_EVERY = 4
"""One in FIVE_EVERY seeds has five brokers."""
ROUNDS = 10
"""Maximum number of rounds per seed; the next seed begins with new brokers."""


@pytest.mark.long
def test_nothing_acknowledged_is_lost_whatever_happens(
    tmp_path: Path, pytestconfig: pytest.Config, process_campaign_seed: int
) -> None:
    seed, count = process_campaign_seed, min(ROUNDS, pytestconfig.getoption("rounds"))
    brokers = 5 if seed % FIVE_EVERY == FIVE_EVERY - 1 else 3
    cluster = ReplicatedCluster(tmp_path, [OURS] * brokers)
    play_campaign(lambda cluster: ReplicationRounds(cluster, seed), count, cluster)


@pytest.mark.long
def test_nor_with_a_zookeeper_server_that_drops_packets(
    tmp_path: Path, pytestconfig: pytest.Config, process_campaign_seed: int
) -> None:
    count = min(ROUNDS, pytestconfig.getoption("rounds"))
    with black_hole() as address:
        cluster = ReplicatedCluster(tmp_path, black_hole=address)
        play_campaign(lambda cluster: ReplicationRounds(cluster, process_campaign_seed), count, cluster)


@pytest.mark.soak
def test_nor_when_machines_and_the_ensemble_fail(
    tmp_path: Path, pytestconfig: pytest.Config, process_campaign_seed: int
) -> None:
    """The additional faults are full disks, stepped clocks and the death of a ZooKeeper ensemble's leader. The test
    needs root.
    """
    seed, count = process_campaign_seed, min(ROUNDS, pytestconfig.getoption("rounds"))
    cluster = FaultyMachinesCluster(tmp_path, [OURS] * 3)
    play_campaign(lambda cluster: FaultyMachinesRounds(cluster, seed), count, cluster)
