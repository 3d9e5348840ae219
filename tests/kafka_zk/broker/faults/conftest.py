from pathlib import Path

import pytest

from tests.kafka_zk.broker.conftest import Harness, build_harness


@pytest.fixture
def broker(tmp_path: Path) -> Harness:
    return build_harness(tmp_path)
