"""Extracts new records of topics exactly once; drives the protocol in ``steps.py``.

    from kafka_zk.spark_jobs.extraction.job import extract
    from kafka_zk.spark_jobs.extraction.planning import Extraction
    report = extract(spark, Extraction(zookeeper="h:2181", group="lake", topics=("flights",), target="/data/flights"))

A process may run any number of extractions. All state between runs is in ZooKeeper and in the target folder.
"""

import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any, Protocol

from kafka_zk.base.clock import monotonic_s, wall_ms
from kafka_zk.base.randomness import SYSTEM_RANDOM, random_uuid
from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import ConnectionLoss, ConnectionTimeout, SessionLost
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.registration import max_leftover_ms
from kafka_zk.spark_jobs.errors import (
    DataLoss,
    ExtractionFailed,
    ForeignCommit,
    GroupBusy,
    JavaDied,
    Undecodable,
    WronglyAsked,
    ZooKeeperLost,
)
from kafka_zk.spark_jobs.extraction import backfills, options
from kafka_zk.spark_jobs.extraction import manifest as manifests
from kafka_zk.spark_jobs.extraction.connections import Connections
from kafka_zk.spark_jobs.extraction.hold import GroupHold
from kafka_zk.spark_jobs.extraction.manifest import Manifest, State
from kafka_zk.spark_jobs.extraction.planning import Brokers, Extraction, Planning, Report
from kafka_zk.spark_jobs.extraction.preflight import WITHOUT_CONNECT
from kafka_zk.spark_jobs.extraction.progress import Progress, silent
from kafka_zk.spark_jobs.extraction.staging import StagingLake, stage
from kafka_zk.spark_jobs.extraction.steps import Leftover, Phase, Step, leftover
from kafka_zk.spark_jobs.extraction.table_formats import is_table
from kafka_zk.spark_jobs.extraction.undecodable import NOTHING_STAGED
from kafka_zk.spark_jobs.session import java_answers
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.waiting import Note

Observe = Callable[[Step, Phase], None]
Work = Callable[[], Awaitable[Any]]
_POLL_MS = 200
_GOES_ON = "run it again, it continues where it stopped"


class Cluster(Protocol):
    """Implemented by ``connections.Connections``."""

    @property
    def brokers(self) -> Brokers: ...

    @property
    def bootstrap_servers(self) -> str: ...

    def partitions(self) -> list[TopicPartition]: ...


class Machine(Protocol):
    """Time and randomness of a run; implemented by ``BlockingMachine``."""

    random: Random

    def wall_ms(self) -> int: ...

    def seconds(self) -> float: ...

    async def wait(self, duration_ms: float) -> None: ...


class BlockingMachine:
    """While a run waits, its ZooKeeper client handles events."""

    def __init__(self, client: KazooBlockingClient) -> None:
        self._client = client
        self.random: Random = SYSTEM_RANDOM
        self.wall_ms = wall_ms
        self.seconds = monotonic_s

    async def wait(self, duration_ms: float) -> None:
        self._client.process(duration_ms)


class Lake(StagingLake, Protocol):
    """Implemented by ``lakes_by_format.Lakes``."""

    def qualified(self, folder: str) -> str: ...

    def published(self, manifest: Manifest) -> str: ...

    def is_published(self, manifest: Manifest) -> bool: ...

    def check_disjoint(self, manifest: Manifest) -> None:
        """Raises ExtractionFailed if a range folder may have some of the records."""
        ...

    def publish(self, manifest: Manifest) -> None: ...

    def discard(self, manifest: Manifest) -> None: ...

    def in_table(self, manifest: Manifest) -> bool: ...

    def is_fenced(self, manifest: Manifest) -> bool:
        """True if the plan's table has a commit with the plan's name but without records."""
        ...

    def fence(self, manifest: Manifest) -> bool: ...


def plan(extraction: Extraction, *, spark: Any = None, note: Note = lambda _: None) -> Report:
    """Plan what a run would extract now (``--dry-run``), without writing or joining the group.

    ``spark``: as for ``extract``; needed if a table has the offsets. Raises the errors of ``extract``.
    """
    options.check(extraction)
    started_s = monotonic_s()
    if extraction.bootstrap_servers is not None:
        return replace(_without_zookeeper(spark, extraction, note, None), seconds=monotonic_s() - started_s)
    with Connections(extraction, note) as connections:
        _check_keys_of_group(extraction, connections)
        hold = GroupHold(connections.zookeeper, extraction.progress_group, "")
        _check_keys(extraction, run_blocking(hold.read_manifest()))
        planning = _planning(extraction, connections, hold, connections.partitions(), note)
        ranges = planning.new_ranges()
    return replace(planning.report(ranges), seconds=monotonic_s() - started_s)


def extract(
    spark: Any, extraction: Extraction, *,
    progress: Progress = silent, note: Note = lambda _: None, observe: Observe = lambda *_: None,
) -> Report:  # fmt: skip
    """Extract new records, and finish the work of a killed run. Without new records, publish nothing.

    Args: ``spark``: a session, or a callable that starts one, called only if there is something to do. ``note``:
        receives a sentence about each wait. ``observe``: called before and after every step of the protocol.
    Raises: WronglyAsked, GroupBusy, ForeignCommit, Undecodable, JavaDied, ZooKeeperLost, ExtractionFailed, DataLoss,
        FetchFailed, OptionError, RegistryError, and Spark's errors. After any of them the next run continues.
    """
    options.check(extraction)
    started_s = monotonic_s()
    if extraction.bootstrap_servers is not None:
        return replace(_without_zookeeper(spark, extraction, note, progress), seconds=monotonic_s() - started_s)
    with Connections(extraction, note) as connections:
        _check_keys_of_group(extraction, connections)
        idle = _idle_report(extraction, connections, note)
        if idle is not None:
            return replace(idle, seconds=monotonic_s() - started_s, brokers=connections.bootstrap_servers)
        session, start_seconds = started(spark, note)
        report = run(session, extraction, connections, progress=progress, note=note, observe=observe)
        report = replace(report, brokers=connections.bootstrap_servers)
    return replace(report, seconds=monotonic_s() - started_s, spark_start_seconds=start_seconds)


def _without_zookeeper(spark: Any, extraction: Extraction, note: Note, progress: Progress | None) -> Report:
    """Always starts Spark, because the offsets are in a table. ``progress``: None to plan only."""
    session, start_seconds = started(spark, note)
    from kafka_zk.spark_jobs.extraction.in_table import run as in_table

    with _java_is_asked(session):
        if progress is None:
            report = in_table.plan(session, extraction, note)
        else:
            report = in_table.run(session, extraction, progress, note)
    return replace(report, spark_start_seconds=start_seconds, brokers=extraction.bootstrap_servers or "")


def _idle_report(extraction: Extraction, connections: Connections, note: Note) -> Report | None:
    """The report of a run without new records, or None if there is something to do. Does not join the group."""
    hold = GroupHold(connections.zookeeper, extraction.progress_group, "")
    partitions = connections.partitions()
    manifest = run_blocking(hold.read_manifest())
    _check_keys(extraction, manifest)
    if extraction.is_backfill and manifest and backfills.may_have_another_target(manifest, extraction, os.getcwd()):
        return None  # the run compares the targets as Spark names them
    lost = _lost(extraction, run_blocking(hold.outdated(partitions)))
    if (manifest is not None and manifest.unfinished) or lost:
        return None
    planning = _planning(extraction, connections, hold, partitions, note)
    if planning.new_ranges():
        return None
    if extraction.is_backfill:
        note(backfills.nothing_found(manifest))
    return planning.report([])


def _lost(extraction: Extraction, outdated: Mapping[TopicPartition, int]) -> list[str]:
    """Sentences about records that the group missed in earlier topics of the same names. Raises DataLoss."""
    group = extraction.progress_group
    told = [
        f"topic {tp.topic} was deleted and recreated since group {group} was at offset {offset} of {tp}"
        for tp, offset in sorted(outdated.items())
    ]
    if told and extraction.fail_on_data_loss:
        raise DataLoss(f"{told[0]} (--no-fail-on-data-loss continues at its beginning)")
    return told


def _check_keys_of_group(extraction: Extraction, connections: Connections) -> None:
    """Check that a backfill decodes keys like its group. Raises WronglyAsked."""
    if extraction.is_backfill:
        hold = GroupHold(connections.zookeeper, extraction.group, "")
        _check_keys(extraction, run_blocking(hold.read_manifest()))


def _check_keys(extraction: Extraction, last: Manifest | None) -> None:
    """Check that all keys of a group's records have one type. Raises WronglyAsked."""
    asked, known = extraction.key_format_to_keep, last.key_format if last is not None else ""
    if asked and known and asked != known:
        raise WronglyAsked(
            f"group {extraction.group} extracts its keys as {known}, not as {asked}: give --key-format {known}, or "
            "another --group"
        )


def _planning(
    extraction: Extraction, connections: Connections, hold: GroupHold, partitions: Sequence[TopicPartition], note: Note
) -> Planning:
    """Plan from the current offsets, which other clients may change until the run owns them."""
    offsets = run_blocking(hold.offsets(partitions))
    planning = Planning(extraction, connections.brokers, {tp: offsets.get(tp, -1) for tp in partitions})
    if told := planning.beginnings_in_doubt():
        note(told)
    return planning


def started(spark: Any, note: Note) -> tuple[Any, float]:
    """The session, and the seconds that its start took. Raises WronglyAsked for a Spark Connect session."""
    if not callable(spark):
        _check_classic(spark)
        return spark, 0.0
    note("starting Spark")
    started_s = monotonic_s()
    session = spark()
    _check_classic(session)
    seconds = monotonic_s() - started_s
    note(f"Spark has started, in {seconds:.1f} s")
    return session, seconds


def _check_classic(session: Any) -> None:
    if type(session).__module__.startswith("pyspark.sql.connect."):
        raise WronglyAsked(f"this is a Spark Connect session, which has no JVM: {WITHOUT_CONNECT}")


def run(
    spark: Any, extraction: Extraction, connections: Connections, *,
    progress: Progress = silent, note: Note = lambda _: None, observe: Observe = lambda *_: None, checked: bool = False,
) -> Report:  # fmt: skip
    """Like ``extract``, over connections that may have been idle for long.

    ``checked``: an earlier run of the same extraction has checked its target and columns.
    """
    from kafka_zk.spark_jobs.extraction.lakes_by_format import Lakes

    lake = Lakes(spark, extraction, progress)
    try:
        with _java_is_asked(spark):
            if not checked or extraction.value_format is not None:  # the schema in the registry may have changed
                lake.check()
            connections.zookeeper.process(0)  # handle session events that have arrived since
            client = connections.zookeeper
            return run_blocking(ExtractionRun(extraction, client, connections, lake, observe, note).run())
    except (ConnectionLoss, ConnectionTimeout, SessionLost) as error:
        raise ZooKeeperLost(f"the connection to ZooKeeper broke: {error}; {_GOES_ON}") from error


@contextmanager
def _java_is_asked(spark: Any) -> Iterator[None]:
    """Raises JavaDied if the block fails because the driver's Java process has ended."""
    from py4j.protocol import Py4JError

    try:
        yield
    except (Py4JError, OSError) as error:
        if java_answers(spark):
            raise
        raise JavaDied(
            f"the Java process of Spark's driver has ended (killed, or out of memory); {_GOES_ON}"
        ) from error


class ExtractionRun:
    """A coroutine that awaits the ZooKeeper client and ``machine``."""

    def __init__(
        self, extraction: Extraction, client: RegistryClient, cluster: Cluster, lake: Lake, observe: Observe,
        note: Note = lambda _: None, machine: Machine | None = None,
    ) -> None:  # fmt: skip
        self._extraction = extraction
        self._client = client
        self._cluster = cluster
        self._lake = lake
        self._observe = observe
        self._note = note
        if machine is None:
            assert isinstance(client, KazooBlockingClient), "another client waits in its own way"
            machine = BlockingMachine(client)
        self._machine = machine
        self._attempt = random_uuid(machine.random).hex[:12]
        consumer_id = _consumer_id(extraction.progress_group, self._machine.wall_ms(), self._attempt)
        self._hold = GroupHold(client, extraction.progress_group, consumer_id)
        self._target = lake.qualified(extraction.target)
        self._published: list[str] = []
        self._staged = NOTHING_STAGED

    async def run(self) -> Report:
        try:
            await self._step(Step.JOIN, self._join)
            offsets = await self._step(Step.CLAIM, self._claim)
            planning = Planning(self._extraction, self._cluster.brokers, offsets)
            found, left = await self._step(Step.SETTLE, lambda: self._settle(planning))
            if left is Leftover.FOLLOW:
                planning = planning.at(await self._follow(found, offsets))
            ranges = planning.new_ranges()
            if ranges:
                manifest = await self._step(Step.PLAN, lambda: self._plan(ranges, planning.offsets, found, left))
                await self._step(Step.STAGE, lambda: self._stage(manifest))
                await self._make_visible(manifest)
        finally:
            await self._step(Step.LEAVE, self._hold.leave)
        return planning.report(ranges, self._staged, tuple(self._published), left)

    async def _make_visible(self, manifest: Manifest) -> None:
        """Files are published after the offsets have moved, but a table's records are published before."""
        if is_table(manifest.format):
            await self._step(Step.PUBLISH, lambda: self._publish(manifest))
            await self._step(Step.COMMIT, lambda: self._commit(manifest))
        else:
            await self._step(Step.COMMIT, lambda: self._commit(manifest))
            await self._step(Step.PUBLISH, lambda: self._publish(manifest))
        await self._step(Step.CLOSE, lambda: self._close(manifest))

    async def _close(self, manifest: Manifest) -> None:
        if is_table(manifest.format):
            self._lake.discard(manifest)
        await self._hold.record(manifest.to(State.PUBLISHED))

    async def _step(self, step: Step, work: Work) -> Any:
        self._observe(step, Phase.BEGIN)
        result = await work()
        self._observe(step, Phase.END)
        return result

    async def _join(self) -> None:
        """Wait until all earlier members have left."""
        await self._hold.join(self._extraction.topics, self._machine.wall_ms())
        timeout_ms = max(self._extraction.wait_ms, max_leftover_ms(self._client.session_timeout_ms))
        deadline_s = self._machine.seconds() + timeout_ms / 1000
        waited_for: list[str] = []
        while elders := await self._hold.elders():
            if self._machine.seconds() >= deadline_s:
                raise GroupBusy(
                    f"{', '.join(elders)} is a live member of group {self._extraction.progress_group} "
                    f"(waited {timeout_ms / 1000:.0f} s; --wait waits longer)"
                )
            if elders != waited_for:
                self._note(f"waiting up to {timeout_ms / 1000:.0f} s until {', '.join(elders)} is gone from the group")
                waited_for = elders
            await self._machine.wait(_POLL_MS)

    async def _claim(self) -> dict[TopicPartition, int]:
        partitions = self._cluster.partitions()
        for told in _lost(self._extraction, await self._hold.outdated(partitions)):
            self._note(f"{told}; the extraction continues at the topic's beginning")
        return await self._hold.claim(partitions)

    async def _settle(self, planning: Planning) -> tuple[Manifest | None, Leftover]:
        """Finish or drop the leftovers of an earlier run."""
        manifest = await self._hold.read_manifest()
        _check_keys(self._extraction, manifest)
        in_table = manifest is not None and manifest.state is State.PLANNED and self._lake.in_table(manifest)
        if self._extraction.is_backfill and manifest is not None:
            backfills.check_target(manifest, self._target, self._extraction.format, in_table)
        left = leftover(manifest, planning.offsets, self._target, self._extraction.format, in_table)
        if manifest is not None and left is Leftover.REPEAT:
            is_asked_for = list(manifest.ranges) == planning.new_ranges()
            if not is_asked_for or self._lake.is_fenced(manifest):  # fenced by a run that has died
                left = Leftover.DROP
        if manifest is None or left in (Leftover.NOTHING, Leftover.FOLLOW):
            return manifest, left
        if left is Leftover.PUBLISH:
            if not is_table(manifest.format):  # a table already shows the records
                await self._publish(manifest)
            await self._close(manifest)
        elif left is Leftover.REPEAT:
            self._lake.discard(manifest)
        elif await self._drop(manifest):
            return manifest, Leftover.FOLLOW
        return manifest, left

    async def _follow(self, manifest: Manifest, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        if absent := [each.topic for each in manifest.ranges if each.tp not in offsets]:
            raise ExtractionFailed(
                f"{manifest.target} has {manifest.name}, but the group's offsets do not include it yet: "
                f"run the extraction once with --topic {absent[0]} as well"
            )
        self._published.append(self._lake.published(manifest))
        if all(offsets[each.tp] == each.from_offset for each in manifest.ranges):
            await self._hold.commit(manifest.to(State.COMMITTED))
            offsets = {**offsets, **{each.tp: each.until_offset for each in manifest.ranges}}
        else:
            self._note(f"{manifest.target} has {manifest.name}; another client has set the group's offsets since")
        await self._close(manifest)
        return offsets

    async def _plan(
        self, ranges: Sequence[OffsetRange], offsets: Mapping[TopicPartition, int], last: Manifest | None,
        left: Leftover,
    ) -> Manifest:  # fmt: skip
        """Write the plan, and set absent or lost offsets to the beginnings of the ranges."""
        writer = last.writer if last is not None and last.writer else self._attempt
        sequence = 0 if last is None else last.sequence + (left is not Leftover.REPEAT)
        key_format = self._extraction.key_format_to_keep or (last.key_format if last is not None else "")
        manifest = manifests.planned(
            ranges, self._target, self._extraction.format, self._attempt, self._machine.wall_ms(), writer, sequence,
            key_format,
        )  # fmt: skip
        if self._lake.is_published(manifest):
            raise ExtractionFailed(
                f"{self._lake.published(manifest)} already exists, so its records would be there twice. Either the "
                "group's offsets were set back, or another group extracted this range: choose another target, or move "
                "the folder away"
            )
        if self._extraction.is_backfill:
            self._lake.check_disjoint(manifest)
        starts = {each.tp: each.from_offset for each in ranges}
        moves = {tp: start for tp, start in starts.items() if offsets[tp] != start}
        await self._hold.write_plan(manifest, moves)
        return manifest

    async def _stage(self, manifest: Manifest) -> None:
        servers = self._cluster.bootstrap_servers
        try:
            self._staged = stage(self._lake, manifest, self._extraction, servers, self._note)
        except Undecodable:
            await self._drop(manifest)
            raise

    async def _drop(self, manifest: Manifest) -> bool:
        """Forget an attempt, so that the next run plans again. True if a table has the attempt's records."""
        self._lake.discard(manifest)  # first, to free space for the table's fence, which is a file, too
        if self._lake.fence(manifest):
            return True
        await self._hold.record(manifest.to(State.DROPPED))
        return False

    async def _commit(self, manifest: Manifest) -> None:
        try:
            await self._hold.commit(manifest.to(State.COMMITTED))
        except ForeignCommit as refused:
            self._lake.discard(manifest)
            told = f"the table has {manifest.name}" if is_table(manifest.format) else "nothing was published"
            raise ForeignCommit(f"{refused}; {told}") from refused

    async def _publish(self, manifest: Manifest) -> None:
        self._lake.publish(manifest)
        self._published.append(self._lake.published(manifest))


def _consumer_id(group: str, now_ms: int, attempt: str) -> str:
    """A consumer id in the format of the old consumer: group, host, time, eight hex digits."""
    return f"{group}_{socket.gethostname()}-{now_ms}-{attempt[:8]}"
