"""The same commits decoded by the native module and in Python: equal responses, offsets and logs."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.internet.defer import maybeDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.partitions import OFFSETS_TOPIC
from kafka_zk.broker.handlers.table import Dispatcher
from kafka_zk.native.loading import Native
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.request import RequestHeader
from kafka_zk.storage.records.record_batch import check_crc, iter_batches
from tests.kafka_zk.broker.conftest import CONTEXT, Harness, build_harness, update_metadata
from tests.kafka_zk.broker.handlers.groups.group_requests import Forbids
from tests.kafka_zk.protocol.strategies import int32, int64

NOW_MS = 1_700_000_000_000
MOST = 100  # partitions of a plain commit
OFFSETS = TopicPartition(OFFSETS_TOPIC, 0)
TIMEOUT_S = 6  # more than offsets.commit.timeout.ms

Commit = codec.request(ApiKey.OFFSET_COMMIT)
Topic = Commit.OffsetCommitRequestTopic
Partition = Topic.OffsetCommitRequestPartition


@dataclass
class CountingNative:
    """Counts the requests that the native module decoded (True) and those that it left to Python (False)."""

    native: Native
    found: Counter[bool] = field(default_factory=Counter)

    def plain_commit(self, *arguments: Any) -> Any:
        read = self.native.plain_commit(*arguments)
        self.found[read is not None] += 1
        return read


@dataclass
class Both:
    """Two brokers that receive the same requests; one has the native module."""

    brokers: list[Harness]
    counted: CountingNative
    correlation_id: int = 0

    def ask(self, version: int, body: bytes, later: Callable[[Harness], None] = lambda broker: None) -> object:
        """The response of both brokers: a list of bytes, or the protocol error. ``later`` completes a broker's waiting
        request.
        """
        self.correlation_id += 1
        answers = [_answer(broker, version, self.correlation_id, body, later) for broker in self.brokers]
        assert answers[0] == answers[1]
        assert self._state(0) == self._state(1)
        return answers[0]

    def _state(self, number: int) -> list[object]:
        services = self.brokers[number].services
        log = services.replicas.partition(OFFSETS).leader_log()
        manager: Any = services.coordinator.offsets
        groups = manager._manager.groups
        offsets = {name: dict(live.group.offsets._committed) for name, live in groups.items()}
        return [log.log_end_offset, log.size_bytes, offsets, manager._manager.offsets_memory.used_bytes]

    def logs(self) -> list[bytes]:
        return [
            b"".join(path.read_bytes() for path in sorted(log.directory.glob("*.log")))
            for broker in self.brokers
            for log in [broker.services.replicas.partition(OFFSETS).leader_log()]
        ]


def _answer(
    broker: Harness, version: int, correlation_id: int, body: bytes, later: Callable[[Harness], None]
) -> object:
    header = RequestHeader(ApiKey.OFFSET_COMMIT, version, correlation_id, "client")
    answers: list[object] = []
    dispatch = Dispatcher(broker.services).dispatch
    done = maybeDeferred(dispatch, CONTEXT, header, memoryview(bytearray(body)))
    done.addCallbacks(answers.append, lambda failure: answers.append(failure.trap(ProtocolError)))
    later(broker)
    assert answers, "not answered yet"
    return answers[0]


def make_both(folder: Path, native: Native, **offsets_topic: Any) -> Both:
    brokers = [build_harness(folder / each, offset_metadata_max_bytes="5") for each in ("native", "python")]
    for broker in brokers:
        broker.clock.wall_ms = lambda: NOW_MS  # type: ignore[method-assign]
        for topic, count in (("t", MOST), ("u", 3)):
            state = {"controller_epoch": 1, "leader": 0, "leader_epoch": 0, "isr": [0], "replicas": [0]}
            known = update_metadata(topic, uuids.random_topic_id(), count, state)
            broker.ask(ApiKey.UPDATE_METADATA, 8, known)
        broker.lead(OFFSETS_TOPIC, **offsets_topic)
    counted: Any = CountingNative(native)
    brokers[0].services.native = counted
    brokers[1].services.native = None
    return Both(brokers, counted)


@pytest.fixture
def both(tmp_path: Path, native: Native) -> Both:
    return make_both(tmp_path, native)


def encoded(version: int, topics: list[tuple[str, list[Any]]], **fields: Any) -> bytes:
    values = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None, "retention_time_ms": -1}
    request = Commit(
        **{"group_id": "g", **values, **fields},
        topics=[Topic(name=name, partitions=partitions) for name, partitions in topics],
    )
    return bytes(codec.encode_body(request, ApiKey.OFFSET_COMMIT, version))


def row(partition: int, offset: int = 7, epoch: int = -1, metadata: str | None = "") -> Any:
    return Partition(
        partition_index=partition, committed_offset=offset, committed_leader_epoch=epoch, commit_timestamp=-1,
        committed_metadata=metadata,
    )  # fmt: skip


_partition_of = attrgetter("partition_index")
_rows = st.builds(row, st.integers(0, 3), int64, int32, st.sampled_from(["", "", "", None, "m", "long metadata"]))
_plain_rows = st.builds(row, st.integers(0, MOST - 1), int64, int32, st.sampled_from(["", None]))
_topics = st.one_of(
    st.lists(st.tuples(st.sampled_from(["t", "t", "u", "unknown", "é"]), st.lists(_rows, max_size=3)), max_size=3),
    st.lists(
        st.tuples(st.just("t"), st.lists(_plain_rows, min_size=1, max_size=MOST, unique_by=_partition_of)),
        min_size=1, max_size=1,
    ),
)  # fmt: skip


@st.composite
def bodies(draw: Any) -> tuple[int, bytes]:
    version = draw(st.sampled_from([9, 9, 8, 7, 6, 5, 2, 1]))
    whole = encoded(
        version, draw(_topics), group_id=draw(st.sampled_from(["g", "g", "", "é", "h" * 200, "x" * 20_000])),
        member_id=draw(st.sampled_from(["", "", "m", "é"])),
        generation_id_or_member_epoch=draw(st.sampled_from([-1, -1, 0, 1])),
        group_instance_id=draw(st.sampled_from([None, None, "i"])),
    )  # fmt: skip
    body = bytearray(whole[: draw(st.integers(0, len(whole)))] if draw(st.integers(0, 5)) == 0 else whole)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2])) if body else 0):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]))
    return version, bytes(body) + draw(st.sampled_from([b"", b"", b"\0"]))


@given(st.lists(bodies(), max_size=5))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_do_the_same(both: Both, requests: list[tuple[int, bytes]]) -> None:
    """Hypothesis examples share the brokers, which keep earlier commits."""
    for version, body in requests:
        both.ask(version, body)
    logs = both.logs()
    assert logs[0] == logs[1]
    for position, header in iter_batches(logs[0]):
        check_crc(logs[0], position, header)


@pytest.mark.parametrize("version", [6, 7, 8, 9])
@pytest.mark.parametrize("count", [1, 63, 64, MOST])
def test_plain_ones_are_read_natively(both: Both, version: int, count: int) -> None:
    rows = [row(each, offset=2**40 + each, epoch=each) for each in range(count)]
    both.ask(version, encoded(version, [("t", rows)]))
    both.ask(version, encoded(version, [("t", rows[:1]), ("u", [row(1), row(2)])], member_id="m", group_id="h"))
    assert both.counted.found == {True: 2}
    logs = both.logs()
    assert logs[0] == logs[1] and len(logs[0]) > 40 * count


@pytest.mark.parametrize(
    "fields",
    [
        {"version": 5},
        {"metadata": "m"},
        {"group_id": "é"},
        {"rows": MOST + 1},
        {"rows": 0},
    ],
    ids=lambda fields: next(iter(fields)),
)  # fmt: skip
def test_others_are_left_to_python(both: Both, fields: dict[str, Any]) -> None:
    rows = [row(each, metadata=fields.get("metadata", "")) for each in range(fields.get("rows", 1))]
    version = fields.get("version", 9)
    both.ask(version, encoded(version, [("t", rows)], group_id=fields.get("group_id", "g")))
    assert both.counted.found == {False: 1}


@pytest.mark.parametrize("topics", [[("t", [row(0), row(0, 8)])], [("t", [row(0)]), ("t", [row(0, 8)])]])
def test_a_partition_that_is_there_twice(both: Both, topics: list[Any]) -> None:
    both.ask(9, encoded(9, topics))
    assert both.counted.found == {True: 1}
    assert both.logs()[0] == both.logs()[1]


@pytest.mark.parametrize("resource_type", ["Group", "Topic"])
def test_who_may_not_commit_is_refused_by_both(both: Both, resource_type: str) -> None:
    for broker in both.brokers:
        broker.services.authorizer = Forbids(resource_type)
    both.ask(9, encoded(9, [("t", [row(0)])]))
    assert both.counted.found == {True: 1}
    assert both.logs() == [b"", b""]


def test_a_batch_that_the_log_refuses_is_an_error_of_every_partition(tmp_path: Path, native: Native) -> None:
    both = make_both(tmp_path, native)
    for broker in both.brokers:
        log = broker.services.replicas.partition(OFFSETS).leader_log()
        log.update_config(replace(log.config, max_message_bytes=10))
    both.ask(9, encoded(9, [("u", [row(1)]), ("t", [row(0)]), ("u", [row(2)])]))
    assert both.logs() == [b"", b""]


def test_a_commit_that_waits_for_another_replica(tmp_path: Path, native: Native) -> None:
    """A commit takes effect only after all in-sync replicas have it."""
    both = make_both(tmp_path, native, isr=[0, 1], replicas=[0, 1])
    both.ask(9, encoded(9, [("t", [row(0), row(1)])]), lambda broker: broker.clock.advance(TIMEOUT_S))
    assert both.counted.found == {True: 1}
    assert both.logs()[0] == both.logs()[1] != b""


def test_a_commit_that_waits_does_not_keep_its_frame(tmp_path: Path, native: Native) -> None:
    """The memory of a request is returned to the budget, so nothing may refer to it."""
    both = make_both(tmp_path, native, isr=[0, 1], replicas=[0, 1])
    for broker in both.brokers:
        frame = bytearray(encoded(9, [("t", [row(0)])]))
        dispatch = Dispatcher(broker.services).dispatch
        waiting = maybeDeferred(dispatch, CONTEXT, RequestHeader(ApiKey.OFFSET_COMMIT, 9, 7, None), memoryview(frame))
        frame.clear()  # raises BufferError if a view of it is left
        broker.clock.advance(TIMEOUT_S)
        assert waiting.called
    assert both.counted.found == {True: 1}


def test_a_commit_without_memory_is_refused_once(both: Both) -> None:
    """The broker logs how many were refused."""
    memories = [broker.services.coordinator.offsets._manager.offsets_memory for broker in both.brokers]
    for memory in memories:
        memory.limit_bytes = 0
    both.ask(9, encoded(9, [("t", [row(0)])]))
    assert both.counted.found == {True: 1}
    assert [memory.refused_counts.total() for memory in memories] == [1, 1]
