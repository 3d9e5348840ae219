"""From transactional producers to Parquet, exactly once: a slice of tests/soak/test_transactional_extraction.py."""

from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.soak.extraction_rounds import ExtractionRounds

pytestmark = [pytest.mark.integration, pytest.mark.spark]


def test_what_is_committed_comes_to_parquet_once(
    kafka_zk_cluster: EmbeddedCluster, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Four programs append in transactions. Programs and extraction runs are killed or replaced by successors."""
    ExtractionRounds(kafka_zk_cluster, tmp_path, pytestconfig.getoption("seed")).run(1)
