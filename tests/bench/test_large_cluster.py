"""The life of a large cluster, with a small one."""

from pathlib import Path

import pytest

from tests.bench import large_cluster
from tests.bench.compare.systems import OURS, SYSTEMS
from tests.bench.large_cluster import LargeCluster

pytestmark = pytest.mark.integration


@pytest.mark.weekly
@pytest.mark.parametrize("replication_factor", [1, 3])
def test_every_step_comes_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replication_factor: int
) -> None:
    monkeypatch.setattr(large_cluster, "_IDLE_S", 0.0)
    system = SYSTEMS[OURS](tmp_path, None)
    told: list[str] = []
    try:
        LargeCluster(system, 2, 6, replication_factor, told.append).run()
    finally:
        system.stop()
    assert [each.partition(":")[0] for each in told] == [
        "12 partitions are created",
        "0 s in which nothing happens",
        "the controller is killed under a supervisor",
        "it starts again",
        "another broker stops cleanly",
        "it starts again",
    ]
