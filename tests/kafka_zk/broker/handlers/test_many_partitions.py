"""Requests about many partitions or topics: other requests run in between, and no older update overwrites a newer one.
"""

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from kafka_zk.base.turns import SLICE_S
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.data.partition_reads import PartitionReads
from kafka_zk.broker.handlers.data.requested_partitions import RequestedPartition
from kafka_zk.broker.handlers.topics.side_by_side import AT_ONCE, side_by_side
from kafka_zk.broker.metadata.cache import partition_changes
from kafka_zk.network.connection_quotas import ConnectionQuotas
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from tests.kafka_zk.broker.conftest import Harness, batch, leader_and_isr, live_config, update_metadata
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import produce

R = TypeVar("R")

Make = Callable[..., Harness]
COUNT = 6
FIELDS = {"controller_epoch": 1, "leader": 0, "leader_epoch": 0, "isr": [0], "replicas": [0]}


@pytest.fixture
def seen() -> list[int]:
    """After each new log, the number of partitions that have a leader from another request's point of view."""
    return []


@pytest.fixture
def slow(harness: Make, seen: list[int]) -> Harness:
    """A broker that needs more than half a slice for each new log."""
    broker = harness()
    replicas = broker.services.replicas
    make = replicas.logs.get_or_create

    def slowly(*arguments: Any) -> Any:
        broker.clock.rightNow += SLICE_S * 0.6
        broker.clock.callLater(0, lambda: seen.append(len(replicas.partitions)))
        return make(*arguments)

    replicas.logs.get_or_create = slowly  # type: ignore[method-assign, assignment]
    return broker


def result_of(done: Deferred[R]) -> R:
    results: list[R] = []
    done.addCallback(results.append)
    (result,) = results
    return result


def has_fired(done: Deferred[R]) -> bool:
    return bool(done.called)


def lead_all(broker: Harness) -> "Deferred[Any]":
    return broker.start(ApiKey.LEADER_AND_ISR, 7, leader_and_isr("t", uuids.random_topic_id(), COUNT, FIELDS))


def stop_all(broker: Harness) -> "Deferred[Any]":
    request = codec.request(ApiKey.STOP_REPLICA)
    states = request.StopReplicaTopicState
    stopped = [
        states.StopReplicaPartitionState(partition_index=number, leader_epoch=-2, delete_partition=True)
        for number in range(COUNT)
    ]
    topic_states = [states(topic_name="t", partition_states=stopped)]
    message = request(controller_id=0, controller_epoch=1, broker_epoch=1, topic_states=topic_states)
    return broker.start(ApiKey.STOP_REPLICA, 4, message)


def test_partitions_are_taken_over_in_slices(slow: Harness, seen: list[int]) -> None:
    """The first partitions are served while the next logs are created."""
    led = lead_all(slow)
    assert not led.called
    slow.clock.advance(0)
    assert seen == [2, 2, 4, 4, 6, 6]
    assert [error.error_code for error in result_of(led).topics[0].partition_errors] == [0] * COUNT


def test_changes_of_partitions_wait_for_each_other(slow: Harness) -> None:
    """If changes did not wait, a StopReplica would miss logs that an older LeaderAndIsr has yet to create."""
    led, stopped = lead_all(slow), stop_all(slow)
    assert not led.called and not stopped.called
    slow.clock.advance(0)
    assert [error.error_code for error in result_of(stopped).partition_errors] == [0] * COUNT
    assert slow.services.replicas.partitions == {}
    assert slow.services.replicas.logs.all_logs() == []


def test_a_configuration_that_changes_meanwhile_reaches_all(slow: Harness) -> None:
    """The change even reaches logs that are created with the old configuration after the announcement."""
    lead_all(slow)
    slow.configs.topics["t"] = {"retention.bytes": "99"}
    changed = ensureDeferred(live_config(slow, ConnectionQuotas()).changed("topics", "t"))
    assert not has_fired(changed)
    slow.clock.advance(0)
    assert has_fired(changed)
    logs = slow.services.replicas.logs.all_logs()
    assert [log.config.retention_bytes for log in logs] == [99] * COUNT


def test_a_topic_is_encoded_once_until_there_is_news(harness: Make) -> None:
    """All requests of the same version on the same listener share the encoding."""
    broker = harness()
    request = codec.request(ApiKey.METADATA)(topics=None, allow_auto_topic_creation=False)

    def partition_counts() -> dict[str, int]:
        answer = broker.ask(ApiKey.METADATA, 12, request)
        return {topic.name: len(topic.partitions) for topic in answer.topics}

    broker.lead("t", 2)
    broker.lead("u", 1)
    assert partition_counts() == {"t": 2, "u": 1}
    (encoded,) = broker.services.metadata.encoded["t"].values()
    parts = encoded.parts
    assert parts is not None
    broker.lead("u", 3)
    assert partition_counts() == {"t": 2, "u": 3}
    assert encoded.parts is parts


def test_answers_about_a_large_topic_follow_its_leaders(harness: Make) -> None:
    """Only changed chunks are encoded again, and the response equals that of a broker without a cache."""
    broker = harness()
    metadata = broker.services.metadata
    topic_id = broker.lead("t", 600)
    request = codec.request(ApiKey.METADATA)(topics=None, allow_auto_topic_creation=False)
    random = Random(1)
    for _ in range(60):
        first, leader, version = random.randrange(800), random.choice([0, 1]), random.choice([1, 12])
        fields = {**FIELDS, "leader": leader, "replicas": [0, leader]}
        update = update_metadata("t", topic_id, first + random.randrange(1, 300), fields)
        del update.topic_states[0].partition_states[:first]
        broker.ask(ApiKey.UPDATE_METADATA, 8, update)
        answer = broker.ask(ApiKey.METADATA, version, request)
        kept, metadata.encoded = metadata.encoded, {}
        assert broker.ask(ApiKey.METADATA, version, request) == answer
        metadata.encoded = kept
        found = {each.partition_index: each.leader_id for each in answer.topics[0].partitions}
        assert found == {number: -1 if info.leader else 0 for number, info in metadata.topics["t"].items()}


def test_topics_are_encoded_anew_when_other_brokers_are_alive(harness: Make) -> None:
    """A topic's metadata name its offline replicas."""
    broker = harness()
    topic_id = broker.lead("t", replicas=[0, 1])

    def offline() -> list[int]:
        request = codec.request(ApiKey.METADATA)(topics=None, allow_auto_topic_creation=False)
        return list(broker.ask(ApiKey.METADATA, 12, request).topics[0].partitions[0].offline_replicas)

    assert offline() == [1]
    update = update_metadata("t", topic_id, 0, {})
    other = update_metadata("t", topic_id, 0, {}).live_brokers[0]
    other.id = 1
    update.live_brokers.append(other)
    update.topic_states.clear()
    broker.ask(ApiKey.UPDATE_METADATA, 8, update)
    assert offline() == []


def test_a_replica_on_a_failed_log_directory_is_offline_though_its_broker_is_alive(harness: Make) -> None:
    """The controller sends the offline replicas; consumers do not read from them."""
    broker = harness()
    topic_id = broker.lead("t", replicas=[0, 1])
    update = update_metadata("t", topic_id, 1, {**FIELDS, "replicas": [0, 1]})
    other = update_metadata("t", topic_id, 0, {}).live_brokers[0]
    other.id = 1
    update.live_brokers.append(other)
    request = codec.request(ApiKey.METADATA)(topics=None, allow_auto_topic_creation=False)
    for told in ([1], []):
        update.topic_states[0].partition_states[0].offline_replicas = told
        broker.ask(ApiKey.UPDATE_METADATA, 8, update)
        assert broker.ask(ApiKey.METADATA, 12, request).topics[0].partitions[0].offline_replicas == told


def test_topics_of_one_request_are_written_side_by_side() -> None:
    """At most AT_ONCE topics are written at a time; a failure appears only in its own topic's result."""
    under_way: list[Deferred[int]] = []

    async def write(number: int) -> int:
        waiting: Deferred[int] = Deferred()
        under_way.append(waiting)
        if number == 1:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS)
        return await waiting

    done = ensureDeferred(side_by_side(Clock(), [write(number) for number in range(AT_ONCE + 3)]))
    assert len(under_way) == AT_ONCE
    for number, waiting in enumerate(list(under_way)):
        waiting.callback(number)
    assert len(under_way) == AT_ONCE + 3
    for number in range(AT_ONCE, AT_ONCE + 3):
        under_way[number].callback(number)
    first, second, *others = result_of(done)
    assert (first, others) == (0, list(range(2, AT_ONCE + 3)))
    assert isinstance(second, ApiError) and second.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_topics_that_need_no_write_are_refused_in_turns() -> None:
    """40,000 names of unknown topics once blocked other requests for seconds."""
    clock = Clock()
    begun: list[int] = []

    async def refuse(number: int) -> int:
        begun.append(number)
        clock.rightNow += SLICE_S / 100
        return number

    done = ensureDeferred(side_by_side(clock, map(refuse, range(10 * AT_ONCE))))
    assert len(begun) == AT_ONCE
    clock.pump([0.0] * 20)
    assert result_of(done) == list(range(10 * AT_ONCE))


def test_news_are_taken_over_in_the_order_in_which_they_came(harness: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update from a broken connection of the controller may still be in preparation. It must not overwrite an update
    that the controller sends on the next connection.
    """
    broker = harness()
    topic_id = broker.lead("t", COUNT)
    older = update_metadata("t", topic_id, COUNT, {**FIELDS, "leader_epoch": 1})
    newer = update_metadata("t", topic_id, 1, {**FIELDS, "leader_epoch": 2})

    def slowly(request: Any) -> Any:
        for change in partition_changes(request):
            broker.clock.rightNow += SLICE_S * 0.6
            yield change

    monkeypatch.setattr("kafka_zk.broker.handlers.inter_broker.update_metadata.partition_changes", slowly)
    begun = broker.start(ApiKey.UPDATE_METADATA, 8, older)
    after = broker.start(ApiKey.UPDATE_METADATA, 8, newer)
    assert not has_fired(begun)
    for _ in range(2 * COUNT):
        broker.clock.advance(0)
    assert has_fired(begun) and has_fired(after)
    info = broker.services.metadata.partition("t", 0)
    assert info is not None and info.leader_epoch == 2


@pytest.mark.parametrize(("size_bytes", "gives_turns"), [(100, False), (2_000_000, True)])
def test_others_have_their_turn_between_a_few_big_batches(
    harness: Make, monkeypatch: pytest.MonkeyPatch, size_bytes: int, gives_turns: bool
) -> None:
    """A hundred batches of 1 MB to one topic would take a tenth of a second."""
    broker = harness(message_max_bytes="3000000")
    broker.lead("t", 3)
    replicas = broker.services.replicas
    append = replicas._append

    def slowly(*arguments: Any) -> Any:
        broker.clock.rightNow += SLICE_S
        return append(*arguments)

    monkeypatch.setattr(replicas, "_append", slowly)
    batches = [(TopicPartition("t", number), memoryview(bytearray(batch(bytes(size_bytes))))) for number in range(3)]
    appended = ensureDeferred(replicas.append_records(batches, 1))
    assert appended.called is not gives_turns
    for _ in range(3):
        broker.clock.advance(0)
    assert [result.first_offset for result in appended.result] == [0, 0, 0]  # type: ignore[attr-defined]


def _fetch_all(count: int, min_bytes: int, version: int = 11) -> Any:
    request = codec.request(ApiKey.FETCH)
    topics = request.FetchTopic
    partitions = [
        topics.FetchPartition(
            partition=number, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=-1,
            last_fetched_epoch=-1, log_start_offset=-1,
        )
        for number in range(count)
    ]  # fmt: skip
    return request(
        replica_id=-1, max_wait_ms=60_000, min_bytes=min_bytes, max_bytes=1 << 20, isolation_level=0, session_id=0,
        session_epoch=-1, forgotten_topics_data=[], rack_id="", topics=[topics(topic="t", partitions=partitions)],
    )  # fmt: skip


@pytest.mark.parametrize("version", [3, 11])
def test_a_waiting_fetch_reads_only_partitions_that_changed(
    harness: Make, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """The fetch reads all partitions at the start, one at each append, and all again for the response."""
    broker = harness()
    broker.lead("t", COUNT)
    replicas = broker.services.replicas
    read: list[TopicPartition] = []
    read_one = replicas.read

    def counting(tp: TopicPartition, *arguments: Any, **named: Any) -> Any:
        read.append(tp)
        return read_one(tp, *arguments, **named)

    monkeypatch.setattr(replicas, "read", counting)
    size_bytes = len(batch(b"x" * 100))
    waiting = broker.start(ApiKey.FETCH, version, _fetch_all(COUNT, 4 * size_bytes - 10))
    assert len(read) == COUNT
    for number in (0, 1, 0):
        read.clear()
        broker.ask(ApiKey.PRODUCE, 9, produce(batch(b"x" * 100), partition=number))
        assert read == [TopicPartition("t", number)] and not waiting.called
    read.clear()
    broker.ask(ApiKey.PRODUCE, 9, produce(batch(b"x" * 100), partition=2))
    assert waiting.called and read[0] == TopicPartition("t", 2) and len(read) == 1 + COUNT
    sizes = [len(each.records or b"") for each in result_of(waiting).responses[0].partitions]
    assert [size > 0 for size in sizes] == [True] * 3 + [False] * 3 and sizes[0] == 2 * sizes[1]


def test_a_waiting_fetch_looks_only_at_the_end_that_moved(harness: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fetch needs only one byte."""
    broker = harness()
    broker.lead("t", COUNT)
    waiting = broker.start(ApiKey.FETCH, 11, _fetch_all(COUNT, 1))
    looked_at: list[TopicPartition] = []
    look = PartitionReads.has_something

    def counting(self: PartitionReads, entry: RequestedPartition, *arguments: Any) -> bool:
        looked_at.append(entry.tp)
        return look(self, entry, *arguments)

    monkeypatch.setattr(PartitionReads, "has_something", counting)
    replicas = broker.services.replicas
    read: list[TopicPartition] = []
    read_one = replicas.read

    def recorded(tp: TopicPartition, *arguments: Any, **named: Any) -> Any:
        read.append(tp)
        return read_one(tp, *arguments, **named)

    monkeypatch.setattr(replicas, "read", recorded)
    broker.ask(ApiKey.PRODUCE, 9, produce(batch(b"x"), partition=COUNT - 1))
    last = TopicPartition("t", COUNT - 1)
    assert waiting.called and looked_at[0] == last and len(looked_at) == 1 + COUNT
    assert read == [last]
