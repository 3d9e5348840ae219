"""Three brokers are killed, paused and cut off while programs append and read in transactions."""

import sys
from pathlib import Path

import pytest

from tests.soak import faulty_transactions
from tests.soak.replicated_cluster import Kind, ReplicatedCluster
from tests.soak.replication_rounds import play_campaign
from tests.soak.transaction_rounds import PROPERTIES, TransactionRounds

pytestmark = [pytest.mark.integration, pytest.mark.embedded, pytest.mark.soak]

ROUNDS = 10
"""Maximum number of rounds per seed; the next seed begins with new brokers."""
_FAULTY_ROUNDS = 3


def test_transactions_are_whole_whatever_happens(
    tmp_path: Path, pytestconfig: pytest.Config, process_campaign_seed: int
) -> None:
    seed, count = process_campaign_seed, min(ROUNDS, pytestconfig.getoption("rounds"))
    cluster = ReplicatedCluster(tmp_path, properties=PROPERTIES)
    play_campaign(lambda cluster: TransactionRounds(cluster, seed), count, cluster)


def _command(properties: Path) -> list[str]:
    return [sys.executable, "-m", faulty_transactions.__name__, str(properties)]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("stable_is_the_high_watermark", {"open record"}),
        ("aborted_are_not_told", {"aborted record"}),
        ("offsets_count_at_once", {"consumed offsets"}),
    ],
)
def test_a_safeguard_that_is_missing_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, expected: set[str]
) -> None:
    monkeypatch.setenv(faulty_transactions.VARIABLE, fault)
    kind = Kind(f"kafka-zk without {fault}", _command, restarts_at_once=True)
    with ReplicatedCluster(tmp_path, [kind] * 3, PROPERTIES) as cluster:
        campaign = TransactionRounds(cluster, 1)
        try:
            campaign.run(_FAULTY_ROUNDS)
            found = campaign.judge()
        finally:
            campaign.close()
    assert expected <= {each.partition(" (")[0] for each in found}, found
