"""Extractions into a real S3 by Spark's own client, killed between the steps; read back by pyarrow.

moto's server is the S3. More kills: tests/soak/test_lake_kill.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.integration.extraction_process import DRIVER
from tests.peers.s3 import S3
from tests.peers.s3_extraction import BETWEEN_FILES, IntoS3, s3  # noqa: F401

pytestmark = pytest.mark.peers


def test_driver_is_killed_between_two_files(
    kafka_zk_cluster: EmbeddedCluster, s3: S3, tmp_path: Path  # noqa: F811
) -> None:
    extraction = IntoS3(kafka_zk_cluster, tmp_path, "into-s3", s3)
    extraction.write(20)
    extraction.kill(BETWEEN_FILES, DRIVER)
    assert len(extraction.keys()) == 1, "one file of two"
    extraction.write(20)
    extraction.recover()
    extraction.check()
    assert extraction.hidden() == [], "nothing is left of the staging"
