"""offsets.storage=kafka in a ZooKeeper group: where offsets are read and written, and when they are not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.waiting import run
from kafka_zk.clients.consumer.offsets_in_kafka import OffsetsInKafka
from kafka_zk.clients.consumer.zookeeper_config import ZookeeperConsumerConfig
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.rebalance.delivery import Start

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class World:
    """The coordinator, the delivery and the driver, all on plain values."""

    def __init__(self, *, dual: bool = True, max_retries: int = 1) -> None:
        self.clock = Clock()
        self.in_kafka: dict[TopicPartition, int] = {}
        self.in_zookeeper: dict[TopicPartition, int] = {}
        self.codes: list[ErrorCode] = []
        self.held_look_up: Deferred[None] | None = None
        self.acting = True
        self.started: dict[TopicPartition, int] = {}
        self.to_release: dict[TopicPartition, int | None] = {}
        self.failures: list[Exception] = []
        config = ZookeeperConsumerConfig(
            group_id="g",
            offsets_storage="kafka",
            dual_commit_enabled=dual,
            offsets_commit_max_retries=max_retries,
            offsets_channel_backoff_ms=100,
        )
        self.storage = OffsetsInKafka(self.clock, config, self, self, lambda: self.acting, self.write)  # type: ignore[arg-type]

    # the coordinator

    async def committed(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        if self.held_look_up is not None:
            await self.held_look_up
        return {tp: self.in_kafka.get(tp, -1) for tp in tps}

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ErrorCode]:
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if code is ErrorCode.NONE:
            self.in_kafka.update(offsets)
        return dict.fromkeys(offsets, code)

    # the delivery

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return frozenset(self.started)

    def is_committed(self, tp: TopicPartition, offset: int) -> bool:
        return self.started.get(tp) == offset

    def start(self, starts: Mapping[TopicPartition, Start]) -> None:
        self.started.update({tp: start.offset for tp, start in starts.items()})

    def stop(self, tps: frozenset[TopicPartition]) -> Any:
        async def offsets() -> dict[TopicPartition, int | None]:
            return {tp: self.to_release.get(tp) for tp in tps}

        return offsets()

    def drop(self, tps: frozenset[TopicPartition]) -> None:
        for tp in tps:
            self.started.pop(tp, None)

    def prepare(self, tps: frozenset[TopicPartition]) -> None: ...
    def suspend(self) -> None: ...
    def resume(self) -> None: ...

    def failed(self, error: Exception) -> None:
        self.failures.append(error)

    # the driver

    async def write(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, None]:
        self.in_zookeeper.update(offsets)
        return dict.fromkeys(offsets)

    def claim(self, *tps: TopicPartition) -> None:
        self.storage.start({tp: Start(0, self.in_zookeeper.get(tp, -1)) for tp in tps})
        self.clock.advance(0)

    def commits(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, str | None]:
        answers: list[Any] = []
        run(self.storage.commit(offsets)).addBoth(answers.append)
        for _ in range(10):
            self.clock.advance(0.1)
        return {tp: None if answer is None else answer.reason for tp, answer in answers[0].items()}


@pytest.mark.parametrize(("kafka", "zookeeper", "start"), [(5, 9, 9), (9, 5, 9), (-1, 5, 5), (5, -1, 5), (-1, -1, -1)])
def test_with_dual_commit_the_larger_one_counts_and_the_other_side_follows(
    kafka: int, zookeeper: int, start: int
) -> None:
    world = World()
    world.in_kafka, world.in_zookeeper = {A: kafka}, {A: zookeeper}
    world.claim(A)
    assert world.started == {A: start}
    assert (world.in_kafka[A], world.in_zookeeper[A]) == (start, start)


def test_without_it_kafkas_counts_and_zookeepers_stays() -> None:
    world = World(dual=False)
    world.in_kafka, world.in_zookeeper = {A: 5}, {A: 9, B: 9}
    world.claim(A, B)
    assert world.started == {A: 5, B: -1}
    assert world.commits({A: 6}) == {A: None}
    assert (world.in_kafka, world.in_zookeeper) == ({A: 6}, {A: 9, B: 9})


def test_what_kafka_refuses_is_tried_again_so_often_and_never_written_to_zookeeper() -> None:
    world = World(max_retries=2)
    world.claim(A)
    world.codes = [ErrorCode.NOT_COORDINATOR, ErrorCode.NETWORK_EXCEPTION]
    assert world.commits({A: 1}) == {A: None} and world.in_zookeeper == {A: 1}
    world.codes = [ErrorCode.NOT_COORDINATOR] * 3
    assert world.commits({A: 2}) == {A: "the coordinator says NOT_COORDINATOR"} and world.in_zookeeper == {A: 1}
    world.codes = [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert world.commits({A: 2}) == {A: "the coordinator says OFFSET_METADATA_TOO_LARGE"} and world.codes == []


def test_nothing_is_written_without_lease_or_ownership() -> None:
    world = World()
    world.claim(A)
    assert world.commits({B: 1}) == {B: "this consumer does not own the partition"}
    world.acting = False
    assert world.commits({A: 1}) == {A: "the session is not certain to be alive"}
    assert (world.in_kafka, world.in_zookeeper) == ({}, {})


@pytest.mark.parametrize("how", ["drop", "stop"])
def test_what_is_taken_away_during_the_look_up_never_starts(how: str) -> None:
    world = World()
    world.held_look_up = Deferred()
    world.claim(A, B)
    getattr(world.storage, how)(frozenset({A}))
    world.held_look_up.callback(None)
    assert world.started == {B: -1}


@pytest.mark.parametrize(("dual", "released"), [(True, {A: 3, B: None}), (False, {A: None, B: None})])
def test_a_release_writes_to_kafka_first(dual: bool, released: dict[TopicPartition, int | None]) -> None:
    world = World(dual=dual)
    world.claim(A, B)
    world.to_release = {A: 3}
    answers: list[Any] = []
    world.storage.stop(frozenset({A, B})).addCallback(answers.append)  # type: ignore[attr-defined]
    assert answers == [released] and world.in_kafka == {A: 3}


def test_a_release_that_kafka_refuses_is_not_written_to_zookeeper_alone() -> None:
    world = World(max_retries=0)
    world.claim(A)
    world.to_release, world.codes = {A: 3}, [ErrorCode.UNKNOWN_MEMBER_ID]
    answers: list[Any] = []
    world.storage.stop(frozenset({A})).addCallback(answers.append)  # type: ignore[attr-defined]
    assert answers == [{A: None}]
