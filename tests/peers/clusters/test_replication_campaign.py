"""The campaign of failures against Apache Kafka 3.9.1, the oracle of what it demands (ours: tests/soak)."""

from pathlib import Path

import pytest

from tests.peers.clusters.mixed_cluster import APACHE_KAFKA
from tests.peers.clusters.mixed_rounds import JvmRounds
from tests.soak.replicated_cluster import ReplicatedCluster
from tests.soak.replication_rounds import play_campaign

pytestmark = pytest.mark.peers

_SLICE = 2
"""Rounds with one for a start and an end of three JVMs fit into a minute."""


def test_nothing_acknowledged_is_lost_whatever_happens(
    peer_tools: None, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    seed, count = pytestconfig.getoption("seed"), pytestconfig.getoption("rounds")
    cluster = ReplicatedCluster(tmp_path, [APACHE_KAFKA] * 3)
    play_campaign(lambda cluster: JvmRounds(cluster, seed), max(_SLICE, count - 1), cluster)
