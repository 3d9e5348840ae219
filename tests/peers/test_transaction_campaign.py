"""The campaign of transactions against Apache Kafka 3.9.1, the oracle of what it demands (ours: tests/soak)."""

from pathlib import Path

import pytest

from tests.peers.mixed_cluster import APACHE_KAFKA
from tests.peers.mixed_rounds import JvmRounds
from tests.soak.replicated_cluster import ReplicatedCluster
from tests.soak.replication_rounds import KILL, LONG_PAUSE, ONE_WAY, PAUSE, STOP
from tests.soak.transaction_rounds import PROPERTIES, TransactionRounds

pytestmark = pytest.mark.peers

_SLICE = 2


class JvmTransactionRounds(TransactionRounds):
    """JVMs want more time of a busy machine, and none is cut from ZooKeeper: if its session ends while a coordinator of
    Kafka loads a partition of ``__transaction_state``, it is never loaded (ZooKeeperClientExpiredException in
    TransactionStateManager), and its producers wait for ever."""

    actions = (KILL, KILL, STOP, PAUSE, LONG_PAUSE, ONE_WAY, ONE_WAY)
    machine_s = JvmRounds.machine_s
    isr_full_s = JvmRounds.isr_full_s


def test_transactions_are_whole_whatever_happens(
    peer_tools: None, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    seed, count = pytestconfig.getoption("seed"), pytestconfig.getoption("rounds")
    properties = {**PROPERTIES, "controller.socket.timeout.ms": "15000"}
    with ReplicatedCluster(tmp_path, [APACHE_KAFKA] * 3, properties) as cluster:
        rounds = JvmTransactionRounds(cluster, seed)
        try:
            rounds.run(max(_SLICE, count - 1))
            found = rounds.judge()
        finally:
            rounds.close()
    print(rounds.story())
    assert not found, "\n".join(found)
