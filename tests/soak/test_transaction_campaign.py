"""Three brokers that die, stand still and are cut off while programs append and read in transactions."""

from pathlib import Path

import pytest

from tests.soak.replicated_cluster import ReplicatedCluster
from tests.soak.replication_rounds import play_campaign
from tests.soak.transaction_rounds import PROPERTIES, TransactionRounds

pytestmark = [pytest.mark.integration, pytest.mark.embedded, pytest.mark.soak]

ROUNDS = 10
"""Of one seed at most: then the next one begins with new brokers."""


def test_transactions_are_whole_whatever_happens(
    tmp_path: Path, pytestconfig: pytest.Config, process_campaign_seed: int
) -> None:
    seed, count = process_campaign_seed, min(ROUNDS, pytestconfig.getoption("rounds"))
    cluster = ReplicatedCluster(tmp_path, properties=PROPERTIES)
    play_campaign(lambda cluster: TransactionRounds(cluster, seed), count, cluster)
