"""Kills of Apache Kafka 3.9.1 brokers during transactions: how long its clients wait (tests/soak has the same for
ours).
"""

from pathlib import Path

import pytest

from tests.peers.clusters.mixed_cluster import APACHE_KAFKA
from tests.peers.clusters.mixed_rounds import JvmRounds
from tests.soak.kill_rounds import PROPERTIES, KillRounds
from tests.soak.replicated_cluster import ReplicatedCluster
from tests.soak.replication_rounds import play_campaign

pytestmark = pytest.mark.soak

ROUNDS = 10


class JvmKillRounds(KillRounds, JvmRounds):
    """The longest waits of Kafka's clients are reported, not judged."""

    most_s = float("inf")


def test_clients_of_apache_kafka_continue_after_each_kill(
    peer_tools: None, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    seed, rounds = pytestconfig.getoption("seed"), min(ROUNDS, pytestconfig.getoption("rounds"))
    cluster = ReplicatedCluster(tmp_path, [APACHE_KAFKA] * 3, PROPERTIES)
    play_campaign(lambda cluster: JvmKillRounds(cluster, seed), rounds, cluster)
