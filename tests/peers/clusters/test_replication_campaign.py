"""The replication campaign with Apache Kafka 3.9.1, which shows that its requirements are right (tests/soak has
ours)."""

from pathlib import Path

import pytest

from tests.peers.clusters.mixed_cluster import APACHE_KAFKA
from tests.peers.clusters.mixed_rounds import JvmRounds
from tests.soak.replicated_cluster import ReplicatedCluster
from tests.soak.replication_rounds import play_campaign

pytestmark = pytest.mark.peers

_SLICE = 2
"""Rounds, counting one for the start and end of three JVMs; they take a minute."""


def test_nothing_acknowledged_is_lost_whatever_happens(
    peer_tools: None, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    seed, count = pytestconfig.getoption("seed"), pytestconfig.getoption("rounds")
    cluster = ReplicatedCluster(tmp_path, [APACHE_KAFKA] * 3)
    play_campaign(lambda cluster: JvmRounds(cluster, seed), max(_SLICE, count - 1), cluster)
