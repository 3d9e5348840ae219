"""From transactional producers to Parquet, exactly once: both are killed, and Parquet has the committed records.

The number of rounds is a tenth of ``--rounds``. 50 rounds, and a line in tests/sim/played.txt:

    KAFKA_ZK_RECORD_ROUNDS=1 python -m pytest -s -m soak tests/soak/test_transactional_extraction.py --rounds 500

A short version: tests/integration/spark/test_transactional_extraction.py.
"""

from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.sim import played
from tests.soak.extraction_rounds import ExtractionRounds


@pytest.mark.integration
@pytest.mark.soak
def test_what_is_committed_comes_to_parquet_once(
    kafka_zk_cluster: EmbeddedCluster, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    seed, rounds = pytestconfig.getoption("seed"), max(1, pytestconfig.getoption("rounds") // 10)
    with played.campaign(f"kills of extractions, from transactions, {rounds} rounds of real processes a seed", seed):
        ExtractionRounds(kafka_zk_cluster, tmp_path, seed).run(rounds)
