"""Every point of the extraction's protocol, driver and executor, killed three times each: real Spark, real brokers."""

from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from spark_jobs.extraction.steps import POINTS, Phase, Step
from tests.integration.extraction_process import DRIVER, EXECUTOR
from tests.integration.killed_extraction import KilledExtraction

pytestmark = [pytest.mark.integration, pytest.mark.soak]

TIMES = 3


@pytest.mark.parametrize("victim", [DRIVER, EXECUTOR])
@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point[0].name}-{point[1].value}")
def test_killed_three_times_and_recovered(
    kafka_zk_cluster: EmbeddedCluster, tmp_path: Path, point: tuple[Step, Phase], victim: str
) -> None:
    step, phase = point
    name = f"killed-{step.name.lower()}-{phase.value}-{victim}"
    extraction = KilledExtraction(kafka_zk_cluster, tmp_path / "lake", name)
    for _ in range(TIMES):
        extraction.write(20)
        extraction.kill(step, phase, victim)
    extraction.recover()
    extraction.check()
