"""Three brokers, or five, that die, stand still and are cut off while idempotent producers write with acks=all."""

import pytest
from pathlib import Path

from tests.peers.targets import kafka_zk_command
from tests.soak.replicated_cluster import ReplicatedCluster
from tests.soak.replication_rounds import ReplicationRounds

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

_FIVE_EVERY = 4
"""So many seeds have one with five brokers."""


def test_nothing_acknowledged_is_lost_whatever_happens(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    seed, count = pytestconfig.getoption("seed"), pytestconfig.getoption("rounds")
    brokers = 5 if seed % _FIVE_EVERY == _FIVE_EVERY - 1 else 3
    with ReplicatedCluster(tmp_path, kafka_zk_command, brokers, restarts_at_once=True) as cluster:
        rounds = ReplicationRounds(cluster, seed)
        try:
            rounds.run(count)
            found = rounds.judge()
        finally:
            rounds.close()
    print(rounds.story())
    assert not found, "\n".join(found)
