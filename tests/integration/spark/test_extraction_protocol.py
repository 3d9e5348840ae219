"""Exactly once on a real ZooKeeper: runs are killed at every point of the protocol, run concurrently, and meet commits
of other clients.

Brokers and Spark are replaced by a log and a disk in memory, so that every point can be tried many times;
tests/soak/test_extraction_kill.py kills real ones.
"""

import random
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.client import Create
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.pipeline import create_with_parents, results
from kafka_zk.registry.consumers import ConsumerRegistry
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.znodes import consumers
from kafka_zk.registry.znodes.consumers import ConsumerRegistration
from kafka_zk.registry.znodes.topics import topic_path
from kafka_zk.spark_jobs.errors import DataLoss, ExtractionFailed, ForeignCommit, GroupBusy, Undecodable, WronglyAsked
from kafka_zk.spark_jobs.extraction import job
from kafka_zk.spark_jobs.extraction.hold import GroupHold
from kafka_zk.spark_jobs.extraction.job import ExtractionRun
from kafka_zk.spark_jobs.extraction.manifest import Manifest
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from kafka_zk.spark_jobs.extraction.table_formats import DELTA
from kafka_zk.testing.plugin import MakeZkClient
from tests.integration.spark.extraction_world import T0, T1, Killed, Point, World, world
from tests.spark_jobs.extraction.points import POINTS

__all__ = ["world"]  # a fixture

pytestmark = pytest.mark.integration


def test_a_run_extracts_everything_and_the_next_only_what_is_new(world: World) -> None:
    report = world.run()
    assert (report.records, len(report.published)) == (50, 1)
    assert [each.lag_after for each in report.partitions] == [0, 0]
    world.check()
    world.log.ends[T1] += 5
    report = world.run()
    assert [(each.from_offset, each.until_offset) for each in report.partitions] == [(30, 30), (20, 25)]
    world.check()
    assert world.run().published == ()


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point[0].name}-{point[1].value}")
def test_killed_three_times_at_any_point_nothing_is_lost_and_nothing_twice(world: World, point: Point) -> None:
    for _ in range(3):
        world.killed_at(point)
        world.log.ends[T0] += 7
    world.run()  # repeats the range that was begun, if any
    world.run()
    world.check()
    assert not [name for name in world.disk.folders if name.startswith("_")], "no staging folder is left"


@pytest.mark.parametrize("format", ["parquet", DELTA])
def test_a_backfill_that_is_killed_anywhere_is_complete_once_and_leaves_the_groups_offsets_alone(
    make_zk_client: MakeZkClient, format: str
) -> None:
    backfill: dict[str, Any] = {"from_ms": 5, "until_ms": 15}
    for point in POINTS:
        world = World(make_zk_client, format)
        world.run(max_records=10)
        before, extracted = world.offsets(), world.disk.records()
        world.killed_at(point, **backfill)
        world.log.ends[T0] += 7
        world.run(**backfill)
        assert world.run(**backfill).records == 0, "a backfill is done once"
        filled = [(tp, offset) for tp in (T0, T1) for offset in range(5, 15)]
        assert world.disk.records() == sorted([*extracted, *filled]), point
        assert world.offsets() == before
        world.client.close()


def test_a_backfill_keeps_its_target(world: World) -> None:
    backfill: dict[str, Any] = {"from_ms": 5, "until_ms": 15}
    world.killed_at((Step.STAGE, Phase.BEGIN), format=DELTA, **backfill)
    world.run(max_records=4, **backfill)  # allowed: the first target has nothing yet
    with pytest.raises(WronglyAsked, match=r"^this backfill was begun into file:/lake \(parquet\): repeat"):
        world.run(format=DELTA, **backfill)
    assert world.run(**backfill).records == 16


def test_a_backfill_that_its_target_refuses_may_have_another(world: World) -> None:
    """The target refuses the backfill before its plan is written, so the backfill has not begun."""
    backfill: dict[str, Any] = {"from_ms": 5, "until_ms": 15}

    def refuse(_: Manifest) -> None:
        raise ExtractionFailed("is already there")

    world.run(max_records=4)
    world.disk.check_disjoint = refuse
    world.run(max_records=4)  # only backfills are checked
    for most in (4, 6):
        with pytest.raises(ExtractionFailed, match="is already there"):
            world.run(max_records=most, **backfill)
    world.disk.check_disjoint = lambda _: None
    assert world.run(format=DELTA, **backfill).records == 20


def test_a_complete_backfill_starts_spark_only_to_compare_targets(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    connections = SimpleNamespace(
        zookeeper=world.client, brokers=world.log, partitions=world.log.partitions, bootstrap_servers="h:9092"
    )
    monkeypatch.setattr(job, "Connections", lambda *_: nullcontext(connections))
    times: dict[str, Any] = {"from_ms": 5, "until_ms": 15}
    backfill = Extraction(zookeeper="z", group=world.group, topics=("t",), target="/lake", **times)

    def start() -> None:
        raise Killed

    world.run(**times)
    assert job.extract(start, backfill, note=told.append).records == 0
    assert told == ["nothing is new for this backfill; its earlier runs extracted into file:/lake"]
    for other in (replace(backfill, target="/other"), replace(backfill, format="json")):
        with pytest.raises(Killed):
            job.extract(start, other)
    late = replace(backfill, from_ms=500, until_ms=600)
    assert job.extract(start, late, note=told.append).lag_before == 0
    assert told[1:] == ["the topics have no readable records from --from to --until"]


def test_killed_in_the_middle_of_writing(world: World) -> None:
    def die() -> None:
        raise Killed

    world.disk.while_staging = die
    with pytest.raises(Killed):
        world.run(lambda step, phase: die() if step is Step.LEAVE else None)
    world.disk.while_staging = lambda: None
    assert world.run().recovered == "the same ranges are extracted again"
    world.check()


PLANNED = ((Step.PLAN, Phase.END), (Step.STAGE, Phase.END))


@pytest.mark.parametrize("point", PLANNED, ids=lambda point: point[0].name)
@pytest.mark.parametrize("format", ["parquet", DELTA])
def test_a_run_after_a_killed_one_comes_to_its_own_end(make_zk_client: MakeZkClient, format: str, point: Point) -> None:
    world = World(make_zk_client, format)
    world.killed_at(point, max_records=10)
    world.log.ends[T0] += 100
    report = world.run()
    assert ([each.until_offset for each in report.partitions], report.lag_after, report.short) == ([130, 20], 0, 0)
    world.check()


@pytest.mark.parametrize("point", PLANNED, ids=lambda point: point[0].name)
@pytest.mark.parametrize("format", ["parquet", DELTA])
def test_a_plan_can_be_made_smaller(make_zk_client: MakeZkClient, format: str, point: Point) -> None:
    world = World(make_zk_client, format)
    world.killed_at(point)
    report = world.run(max_records=10)
    assert (report.records, report.lag_after, report.recovered) == (10, 40, "its attempt is forgotten")
    world.check(complete=False)
    assert not [name for name in world.disk.folders if name.startswith("_")], "no staging folder is left"
    world.run()
    world.check()


def test_what_was_committed_is_published_whatever_is_asked_for_now(world: World) -> None:
    world.killed_at((Step.COMMIT, Phase.END))
    world.log.ends[T0] += 100
    report = world.run(max_records=10)
    assert (report.records, len(report.published), report.lag_after) == (10, 2, 90)
    world.check(complete=False)


def test_any_sequence_of_deaths_appends_and_foreign_commits(world: World, campaign_seed: int) -> None:
    """At the end, the target contains each record once, up to the committed offsets."""
    rnd = random.Random(campaign_seed)
    for _ in range(6):
        world.log.ends[rnd.choice((T0, T1))] += rnd.randrange(4)
        options: dict[str, Any] = {"max_records": rnd.randrange(1, 20)} if rnd.random() < 0.5 else {}
        if rnd.random() < 0.7:
            point = rnd.choice([each for each in POINTS if each[0] in (Step.JOIN, Step.CLAIM, Step.SETTLE, Step.LEAVE)]
                               if world.offsets() == world.log.ends else POINTS)  # fmt: skip
            reached: list[Point] = []
            try:
                world.run(_killing(point, reached), **options)
            except Killed:
                assert point in reached
        else:
            world.run(**options)
    while world.offsets() != world.log.ends:
        world.run()
    world.run()
    world.check()


def _killing(point: Point, reached: list[Point]) -> Callable[[Step, Phase], None]:
    def observe(step: Step, phase: Phase) -> None:
        reached.append((step, phase))
        if point in reached:
            raise Killed

    return observe


# --- others in the group


def test_a_foreign_commit_while_records_are_written_publishes_nothing(world: World) -> None:
    """The other client commits without a version, as a Scala consumer does."""
    world.disk.while_staging = lambda: run_blocking(OffsetRegistry(world.client, world.group).store({T1: 4}))
    with pytest.raises(ForeignCommit, match=f"/consumers/{world.group}/offsets/t/1 meanwhile; nothing was published"):
        world.run()
    assert world.disk.folders == {}
    world.disk.while_staging = lambda: None
    world.run()
    assert world.disk.records() == [(T0, offset) for offset in range(30)] + [(T1, offset) for offset in range(4, 20)]
    assert world.offsets() == world.log.ends


@pytest.mark.parametrize("point", [(Step.CLAIM, Phase.END), (Step.PLAN, Phase.END), (Step.COMMIT, Phase.BEGIN)],
                         ids=lambda point: f"{point[0].name}-{point[1].value}")  # fmt: skip
def test_a_paused_run_that_lost_its_session_is_overtaken_and_publishes_nothing(world: World, point: Point) -> None:
    """The run resumes after its ephemeral znodes were deleted and another run has claimed, extracted and published."""

    def overtaken(step: Step, phase: Phase) -> None:
        if (step, phase) == point:
            member = run_blocking(ConsumerRegistry(world.client, world.group).members())
            assert len(member) == 1
            ephemerals = [consumers.id_path(world.group, next(iter(member)))]
            ephemerals += [consumers.owner_path(world.group, *tp) for tp in (T0, T1)]
            run_blocking(results(world.client.delete(path) for path in ephemerals))
            world.run()

    with pytest.raises(ExtractionFailed):  # ForeignCommit, unless the range's folder is there already
        world.run(overtaken)
    world.check()


def join(world: World, client: KazooBlockingClient, name: str = "scala-1") -> None:
    path = consumers.id_path(world.group, name)
    data = consumers.encode_registration(ConsumerRegistration({"t": 1}))
    run_blocking(create_with_parents(client, Create(path, data, ephemeral=True)))


def test_a_live_member_stops_the_run_before_it_touches_anything(world: World) -> None:
    other = world.new_client()
    join(world, other)
    with pytest.raises(GroupBusy, match="scala-1 is a live member"):
        world.run(session_timeout_ms=400)
    assert world.offsets() == {}
    assert list(run_blocking(ConsumerRegistry(world.client, world.group).members())) == ["scala-1"]
    other.close()
    world.run()
    world.check()


def test_a_member_that_leaves_in_time_is_waited_for(world: World) -> None:
    other = world.new_client()
    join(world, other)
    calls: list[Point] = []
    notes: list[str] = []

    def leaves(step: Step, phase: Phase) -> None:
        calls.append((step, phase))

    original = KazooBlockingClient.process

    def process(client: KazooBlockingClient, duration_ms: float) -> None:
        other.close()
        original(client, duration_ms)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KazooBlockingClient, "process", process)
        world.run(leaves, notes.append, wait_ms=60_000)
    assert notes[0] == "waiting up to 60 s until scala-1 is gone from the group"
    assert calls[1] == (Step.JOIN, Phase.END)
    world.check()


def test_a_member_that_joins_meanwhile_does_not_stop_the_range_that_is_held(world: World) -> None:
    other = world.new_client()
    world.disk.while_staging = lambda: join(world, other)
    assert world.run().records == 50
    world.check()


def test_a_partition_that_somebody_owns_stops_the_run(world: World) -> None:
    other = world.new_client()
    owner = Create(consumers.owner_path(world.group, *T1), b"zombie-0", ephemeral=True)
    run_blocking(create_with_parents(other, owner))
    with pytest.raises(GroupBusy, match="t-1 is owned by zombie-0"):
        world.run()
    other.close()
    world.run()
    world.check()


def test_of_two_runs_at_once_one_waits_for_the_other(world: World) -> None:
    """The second run starts at several points of the first, which holds the group, and is refused."""
    refused: list[Point] = []

    def rival(step: Step, phase: Phase) -> None:
        if step in (Step.CLAIM, Step.PLAN, Step.COMMIT, Step.PUBLISH) and phase is Phase.END:
            client = world.new_client()
            extraction = Extraction(zookeeper="z", group=world.group, topics=("t",), target="/lake")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("kafka_zk.spark_jobs.extraction.job.max_leftover_ms", lambda timeout_ms: 0)
                with pytest.raises(GroupBusy):
                    run_blocking(ExtractionRun(extraction, client, world.log, world.disk, lambda *_: None).run())
            refused.append((step, phase))
            client.close()

    world.run(rival)
    assert len(refused) == 4
    world.check()


# --- from and with others


def test_it_goes_on_where_a_scala_consumer_stopped(world: World) -> None:
    """The old consumer stores offsets as decimal text."""
    run_blocking(create_with_parents(world.client, Create(consumers.offset_path(world.group, *T0), b"12")))
    report = world.run()
    assert [(each.from_offset, each.until_offset) for each in report.partitions] == [(12, 30), (0, 20)]
    assert world.client.get(consumers.offset_path(world.group, *T0)).get()[0] == b"30"  # type: ignore[attr-defined]


def test_a_topic_that_was_made_again_is_not_read_from_the_old_offset(world: World) -> None:
    """The new log reaches beyond the old offset. Old records may be lost, so the run fails unless that is allowed."""
    topic = topic_path("t")
    run_blocking(create_with_parents(world.client, Create(topic, b'{"version":1,"partitions":{"0":[0],"1":[0]}}')))
    world.run()
    world.client.delete(topic).get()  # type: ignore[attr-defined]
    run_blocking(create_with_parents(world.client, Create(topic, b'{"version":1,"partitions":{"0":[0],"1":[0]}}')))
    world.log.ends = {T0: 100, T1: 90}
    for _ in range(2):
        with pytest.raises(DataLoss, match=r"topic t was deleted and recreated since .* at offset 30 of t-0"):
            world.run()
    assert world.offsets() == {T0: 30, T1: 20}
    told: list[str] = []
    report = world.run(note=told.append, fail_on_data_loss=False)
    assert [(each.from_offset, each.until_offset) for each in report.partitions] == [(0, 100), (0, 90)]
    assert told[-1] == "extracting 190 records of 2 partitions, in 2 tasks"
    assert len(told) == 3 and world.offsets() == world.log.ends
    world.client.delete(topic).get()  # type: ignore[attr-defined]


def test_the_tasks_that_are_told_are_those_that_run(world: World) -> None:
    world.log.ends = {TopicPartition("t", number): 2 for number in range(20)}
    told: list[str] = []
    assert world.run(note=told.append).records == 40
    assert told == ["extracting 40 records of 20 partitions, in 10 tasks"]


def test_offsets_that_were_set_back_do_not_publish_a_range_twice(world: World) -> None:
    world.run()
    run_blocking(OffsetRegistry(world.client, world.group).store({T0: 0, T1: 0}))
    with pytest.raises(ExtractionFailed, match="set back"):
        world.run()


def test_values_that_cannot_be_decoded_publish_nothing_until_that_is_allowed(world: World) -> None:
    """The next run makes a new plan. If it repeated the range, a range with only bad values would block the group."""
    world.disk.undecodable_count = 50
    for choice in ("fail", "null", "keep"):
        with pytest.raises(Undecodable, match=r"none of the 50 values is UTF-8 text .* at offset 0 of t-0"):
            world.run(decode="string", on_undecodable=choice)
    assert world.disk.folders == {} and world.offsets() == {T0: 0, T1: 0}
    world.log.ends[T0] += 5
    with pytest.raises(Undecodable, match="50 of 55 values are not UTF-8 text"):
        world.run(decode="string")
    report = world.run(decode="string", on_undecodable="keep")
    assert (report.records, report.undecodable) == (55, 50)
    world.check()


def test_an_attempt_for_another_target_is_forgotten_once(world: World) -> None:
    """After that, the manifest shows that the attempt is finished, so the next run ignores it."""
    world.killed_at((Step.STAGE, Phase.END))
    extraction = Extraction(zookeeper="z", group=world.group, topics=("t",), target="/other", max_records=1)
    world.log.ends = {T0: 0, T1: 0}
    run_blocking(ExtractionRun(extraction, world.new_client(), world.log, world.disk, lambda *_: None).run())
    manifest = run_blocking(GroupHold(world.client, world.group, "").read_manifest())
    assert manifest is not None and not manifest.unfinished
    assert world.disk.folders == {}


def test_a_folder_of_another_target_that_was_committed_is_published_there(world: World) -> None:
    world.killed_at((Step.COMMIT, Phase.END))
    extraction = Extraction(zookeeper="z", group=world.group, topics=("t",), target="/other")
    report = run_blocking(
        ExtractionRun(extraction, world.new_client(), world.log, world.disk, lambda *_: None).run()
    )
    assert (len(report.published), report.records) == (1, 0)
    world.check()
