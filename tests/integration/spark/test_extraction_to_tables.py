"""Extractions into a table commit to the table first, and then move the offsets."""

from collections.abc import Mapping

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.registry.client.pipeline import results
from kafka_zk.registry.consumers import ConsumerRegistry
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.znodes import consumers
from kafka_zk.spark_jobs.errors import ExtractionFailed, ForeignCommit
from kafka_zk.spark_jobs.extraction.hold import GroupHold
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from kafka_zk.spark_jobs.extraction.table_formats import DELTA
from kafka_zk.testing.plugin import MakeZkClient
from tests.integration.spark.extraction_world import T0, T1, Disk, Point, World
from tests.spark_jobs.extraction.points import POINTS

pytestmark = pytest.mark.integration


@pytest.fixture
def table(make_zk_client: MakeZkClient) -> World:
    """A ``world`` whose target is a table."""
    return World(make_zk_client, DELTA)


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point[0].name}-{point[1].value}")
def test_killed_at_any_point_a_table_has_everything_once(table: World, point: Point) -> None:
    for _ in range(3):
        table.killed_at(point)
        assert table.disk.records() in (_until(table.offsets()), _until(table.log.ends)), "behind by one plan at most"
        table.log.ends[T0] += 7
    table.run()
    table.run()
    table.check()
    assert not table.disk.folders, "no staging folder is left"


def _until(ends: Mapping[TopicPartition, int]) -> list[tuple[TopicPartition, int]]:
    return [(tp, offset) for tp in (T0, T1) for offset in range(max(0, ends.get(tp, 0)))]


def test_offsets_follow_what_the_table_has(table: World) -> None:
    table.killed_at((Step.PUBLISH, Phase.END))
    assert table.disk.records() == _until(table.log.ends) and table.offsets() == {T0: 0, T1: 0}
    table.log.ends[T1] += 5
    report = table.run()
    assert report.recovered == "the table has its records, the offsets follow"
    assert (report.records, len(report.published)) == (5, 2)
    table.check()


def test_a_plan_that_was_dropped_cannot_be_committed_by_who_sleeps(table: World) -> None:
    """The paused run resumes before its commit, after another client moved the offsets and another run continued from
    there.
    """

    def overtaken(step: Step, phase: Phase) -> None:
        if (step, phase) == (Step.PUBLISH, Phase.BEGIN):
            member = run_blocking(ConsumerRegistry(table.client, table.group).members())
            ephemerals = [consumers.id_path(table.group, next(iter(member)))]
            ephemerals += [consumers.owner_path(table.group, *tp) for tp in (T0, T1)]
            run_blocking(results(table.client.delete(path) for path in ephemerals))
            run_blocking(OffsetRegistry(table.client, table.group).store({T1: 4}))
            table.run()
            table.disk.folders = dict.fromkeys(table.disk.staged, table.disk.records())

    with pytest.raises(ForeignCommit, match="another extraction of group"):
        table.run(overtaken)
    assert table.disk.records() == [each for each in _until(table.log.ends) if each[0] == T0 or each[1] >= 4]
    assert table.offsets() == table.log.ends


@pytest.mark.parametrize("is_looked_for", [True, False])
def test_a_plan_that_was_fenced_by_a_run_that_died_then_is_planned_anew(
    table: World, is_looked_for: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table accepts no records under a fenced plan's name, and the manifest does not show the fence yet."""
    table.killed_at((Step.STAGE, Phase.END))
    manifest = run_blocking(GroupHold(table.client, table.group, "").read_manifest())
    assert manifest is not None and not table.disk.fence(manifest)
    if not is_looked_for:
        monkeypatch.setattr(Disk, "is_fenced", lambda disk, manifest: False)
    report = table.run()
    if is_looked_for:
        assert report.recovered == "its attempt is forgotten"
        table.check()
    else:
        assert not table.disk.records(), "why it is looked for"


def test_offsets_that_somebody_has_set_since_are_left_as_they_are(table: World) -> None:
    table.killed_at((Step.PUBLISH, Phase.END))
    run_blocking(OffsetRegistry(table.client, table.group).store({T1: 19}))
    told: list[str] = []
    report = table.run(note=told.append)
    assert any("another client has set the group's offsets since" in each for each in told)
    assert [each.from_offset for each in report.partitions] == [0, 19], "as they say"


def test_a_topic_that_is_left_out_now_is_asked_for(table: World) -> None:
    table.killed_at((Step.PUBLISH, Phase.END))
    table.log.ends = {T0: 30}
    with pytest.raises(ExtractionFailed, match="run the extraction once with --topic t as well"):
        table.run()
