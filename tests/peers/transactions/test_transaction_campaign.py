"""The campaign of transactions with brokers of Apache Kafka 3.9.1: alone, as the oracle of the campaign's demands
(tests/soak has ours alone), and in a cluster of both kinds, where both have coordinators and data.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.peers.clusters.mixed_cluster import APACHE_KAFKA
from tests.peers.clusters.mixed_rounds import JvmRounds
from tests.soak.replicated_cluster import OURS, Kind, ReplicatedCluster
from tests.soak.replication_rounds import KILL, LONG_PAUSE, ONE_WAY, PAUSE, STOP, play_campaign
from tests.soak.transaction_rounds import PROPERTIES, TransactionRounds

_SLICE = 2
_CLUSTERS = ((APACHE_KAFKA,) * 3, (OURS, APACHE_KAFKA, OURS), (APACHE_KAFKA, OURS, APACHE_KAFKA))


class JvmTransactionRounds(TransactionRounds):
    """JVMs need more time on a busy machine, and no broker is cut off from ZooKeeper: if its session ends while a
    coordinator of Kafka loads a partition of ``__transaction_state``, the partition is never loaded
    (ZooKeeperClientExpiredException in TransactionStateManager), and its producers wait indefinitely.
    """

    actions = (KILL, KILL, STOP, PAUSE, LONG_PAUSE, ONE_WAY, ONE_WAY)
    machine_s = JvmRounds.machine_s
    isr_full_s = JvmRounds.isr_full_s


def play(folder: Path, config: pytest.Config, kinds: Sequence[Kind]) -> None:
    seed, count = config.getoption("seed"), config.getoption("rounds")
    properties = {**PROPERTIES, "controller.socket.timeout.ms": "15000"}
    cluster = ReplicatedCluster(folder, kinds, properties)
    play_campaign(lambda cluster: JvmTransactionRounds(cluster, seed), max(_SLICE, count - 1), cluster)


@pytest.mark.soak
@pytest.mark.parametrize("kinds", _CLUSTERS, ids=lambda kinds: ", ".join(kind.name for kind in kinds))
def test_transactions_are_whole_whatever_happens(
    peer_tools: None, tmp_path: Path, pytestconfig: pytest.Config, kinds: Sequence[Kind]
) -> None:
    play(tmp_path, pytestconfig, kinds)


@pytest.mark.peers
def test_transactions_are_whole_in_a_cluster_of_both_kinds(
    peer_tools: None, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """A slice of the same campaign, with brokers of both kinds."""
    play(tmp_path, pytestconfig, (OURS, APACHE_KAFKA, OURS))
