"""Requests with many elements are handled in several turns.

Time is counted in calls: each call of a Python or C function takes a microsecond. So the test detects a loop that does
not yield, and does not depend on the machine's load.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred

from kafka_zk.base.turns import SLICE_S
from kafka_zk.broker.handlers.table import Dispatcher
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import RequestHeader, response_body_position
from kafka_zk.protocol.request_limits import max_elements
from kafka_zk.security import scram
from kafka_zk.sim.machine.scheduler import VirtualClock as Clock
from tests.kafka_zk.broker.conftest import CONTEXT, Harness, update_metadata
from tests.kafka_zk.broker.handlers.test_other_apis import list_offsets

pytestmark = pytest.mark.slow

CALL_S = 1e-6
LONGEST_TURN_S = 3 * SLICE_S
"""A slice, plus work that cannot be divided, which takes less than one call per element."""

ELEMENTS = 10_000
"""Fewer elements than these requests may have. With fifty thousand elements, a turn takes equally long, but the test
takes five times longer.
"""


class WorkClock(Clock):
    """A clock that advances with the work done in the reactor's turns."""

    def __init__(self) -> None:
        super().__init__()
        self.longest_s = 0.0
        self.turns = 0

    def _count(self, _frame: Any, event: str, _argument: Any) -> None:
        if event in ("call", "c_call"):
            self.rightNow += CALL_S

    def turn(self, work: Callable[..., Any], *args: Any) -> Any:
        """Run one turn."""
        before_s = self.rightNow
        self.turns += 1
        sys.setprofile(self._count)
        try:
            return work(*args)
        finally:
            sys.setprofile(None)
            self.longest_s = max(self.longest_s, self.rightNow - before_s)

    def callLater(self, *call: Any, **keywords: Any) -> Any:
        delay_s, *work = call
        return super().callLater(delay_s, self.turn, *work, **keywords)


@pytest.fixture
def broker(harness: Callable[..., Harness]) -> Iterator[Harness]:
    made = harness()
    made.lead("t", 3)
    made.lead("__consumer_offsets")
    fields = {"controller_epoch": 1, "leader": 1, "leader_epoch": 0, "isr": [1], "replicas": [1]}
    made.ask(ApiKey.UPDATE_METADATA, 8, update_metadata("elsewhere", uuids.random_topic_id(), ELEMENTS, fields))
    made.services.clock = made.clock = made.services.coordinator.offsets._clock = WorkClock()
    yield made


def answer(broker: Harness, api_key: ApiKey, version: int, request: Any) -> bytes:
    """The response to a request, header and body."""
    clock = broker.clock
    assert isinstance(clock, WorkClock)
    body = memoryview(bytearray(codec.encode_body(request, api_key, version)))
    header = RequestHeader(api_key, version, 7, "client")
    answers: list[Any] = []
    done: Deferred[Any] = clock.turn(maybeDeferred, Dispatcher(broker.services).dispatch, CONTEXT, header, body)
    done.addBoth(answers.append)
    while not answers:
        assert clock.getDelayedCalls()
        clock.advance(0)
    return b"".join(answers[0])


def offset_fetch(version: int, count: int) -> Any:
    request = codec.request(ApiKey.OFFSET_FETCH)
    if version >= 8:
        topic = request.OffsetFetchRequestGroup.OffsetFetchRequestTopics
        group = request.OffsetFetchRequestGroup
        topics = [topic(name="t", partition_indexes=list(range(count)))]
        return request(groups=[group(group_id="g", topics=topics)], require_stable=False)
    topic = request.OffsetFetchRequestTopic
    return request(group_id="g", topics=[topic(name="t", partition_indexes=list(range(count)))])


def offset_commit(_version: int, count: int) -> Any:
    """Four times as many elements, because an unknown partition costs little work."""
    return offset_commit_of(4 * count)


def offset_commit_of(count: int) -> Any:
    request = codec.request(ApiKey.OFFSET_COMMIT)
    topic = request.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition
    partitions = [
        partition(partition_index=index, committed_offset=1, committed_metadata="") for index in range(count)
    ]
    return request(group_id="g", topics=[topic(name="t", partitions=partitions)])


def offset_commit_of_known(_version: int, count: int) -> Any:
    request = offset_commit_of(count // 2)  # more do not fit into a batch
    request.topics[0].name = "elsewhere"
    return request


def offset_commit_of_topics(_version: int, count: int) -> Any:
    """The request has one partition of each topic."""
    request = codec.request(ApiKey.OFFSET_COMMIT)
    topic = request.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    return request(group_id="g", topics=[topic(name=f"t{index}", partitions=[partition]) for index in range(count)])


def offset_delete(_version: int, count: int) -> Any:
    request = codec.request(ApiKey.OFFSET_DELETE)
    topic = request.OffsetDeleteRequestTopic
    partitions = [topic.OffsetDeleteRequestPartition(partition_index=index) for index in range(count)]
    return request(group_id="g", topics=[topic(name="elsewhere", partitions=partitions)])


def many_list_offsets(_version: int, count: int) -> Any:
    request = list_offsets(-1)
    partition = request.topics[0].partitions[0]
    kind = type(partition)
    request.topics[0].partitions = [
        kind(partition_index=index, current_leader_epoch=-1, timestamp=-1) for index in range(count)
    ]
    return request


def describe_log_dirs(_version: int, count: int) -> Any:
    request = codec.request(ApiKey.DESCRIBE_LOG_DIRS)
    return request(topics=[request.DescribableLogDirTopic(topic="t", partitions=list(range(count)))])


def delete_records(_version: int, count: int) -> Any:
    request = codec.request(ApiKey.DELETE_RECORDS)
    topic = request.DeleteRecordsTopic
    partition = topic.DeleteRecordsPartition
    partitions = [partition(partition_index=index, offset=0) for index in range(count)]
    return request(topics=[topic(name="t", partitions=partitions)], timeout_ms=1000)


def end_offsets(_version: int, count: int) -> Any:
    request = codec.request(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    topic = request.OffsetForLeaderTopic
    partition = topic.OffsetForLeaderPartition
    partitions = [partition(partition=index, current_leader_epoch=-1, leader_epoch=0) for index in range(count)]
    return request(replica_id=-1, topics=[topic(topic="t", partitions=partitions)])


@pytest.mark.parametrize(
    ("api_key", "version", "make"),
    [
        (ApiKey.LIST_OFFSETS, 7, many_list_offsets),
        (ApiKey.OFFSET_FETCH, 0, offset_fetch),
        (ApiKey.OFFSET_FETCH, 5, offset_fetch),
        (ApiKey.OFFSET_FETCH, 8, offset_fetch),
        (ApiKey.OFFSET_COMMIT, 0, offset_commit),
        (ApiKey.OFFSET_COMMIT, 8, offset_commit),
        (ApiKey.OFFSET_COMMIT, 0, offset_commit_of_known),
        (ApiKey.OFFSET_COMMIT, 8, offset_commit_of_known),
        (ApiKey.OFFSET_COMMIT, 0, offset_commit_of_topics),
        (ApiKey.OFFSET_COMMIT, 8, offset_commit_of_topics),
        (ApiKey.OFFSET_DELETE, 0, offset_delete),
        (ApiKey.DESCRIBE_LOG_DIRS, 4, describe_log_dirs),
        (ApiKey.DELETE_RECORDS, 2, delete_records),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, end_offsets),
    ],
)
def test_a_large_request_is_answered_in_turns(
    broker: Harness, api_key: ApiKey, version: int, make: Callable[[int, int], Any]
) -> None:
    """The number of elements does not matter."""
    assert max_elements(api_key) > ELEMENTS
    assert answer(broker, api_key, version, make(version, ELEMENTS))
    assert isinstance(broker.clock, WorkClock)
    assert broker.clock.turns > 3
    assert broker.clock.longest_s < LONGEST_TURN_S


@pytest.mark.parametrize("version", [0, 8])
def test_a_commit_for_many_topics_is_carried_out_in_turns(broker: Harness, version: int) -> None:
    """The commit has one partition in each of many topics, instead of many partitions of one topic."""
    count = ELEMENTS // 4
    for index in range(count):
        broker.services.metadata.topics[f"t{index}"] = broker.services.metadata.topics["t"]
    request = offset_commit_of_topics(version, count)
    frame = memoryview(answer(broker, ApiKey.OFFSET_COMMIT, version, request))
    body = frame[response_body_position(frame, ApiKey.OFFSET_COMMIT, version) :]
    topics = codec.decode_response(ApiKey.OFFSET_COMMIT, version, body).topics
    assert [(each.name, each.partitions[0].error_code) for each in topics] == [(f"t{n}", 0) for n in range(count)]
    assert isinstance(broker.clock, WorkClock)
    assert broker.clock.longest_s < LONGEST_TURN_S


def test_a_large_update_of_the_metadata_is_prepared_in_turns(broker: Harness) -> None:
    """The update is then applied as a whole, which takes less than one call per partition."""
    fields = {"controller_epoch": 1, "leader": 0, "leader_epoch": 0, "isr": [0], "replicas": [0]}
    partitions = ELEMENTS
    answer(broker, ApiKey.UPDATE_METADATA, 8, update_metadata("many", uuids.random_topic_id(), partitions, fields))
    assert len(broker.services.metadata.topics["many"]) == partitions
    assert isinstance(broker.clock, WorkClock)
    assert broker.clock.turns > 10
    assert broker.clock.longest_s < LONGEST_TURN_S


@pytest.mark.parametrize(
    ("api_key", "version", "request_fields", "listed"),
    [
        (ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": [], "strict": False}, "entries"),
        (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": None}, "results"),
    ],
)
def test_all_users_are_read_and_described_in_turns(
    broker: Harness,
    monkeypatch: pytest.MonkeyPatch,
    api_key: ApiKey,
    version: int,
    request_fields: dict[str, Any],
    listed: str,
) -> None:
    """The request is short, but the response grows with the users of the cluster."""
    credential = scram.encode_credential(scram.ScramCredential(b"salt", b"stored", b"server", scram.MIN_ITERATIONS))
    users = {f"u{number:05}": {"producer_byte_rate": "1000", "SCRAM-SHA-256": credential} for number in range(5_000)}
    broker.configs.users.update(users)

    async def names(entity_type: str) -> list[str]:
        return list(users) if entity_type == "users" else []

    async def none() -> list[str]:
        return []

    monkeypatch.setattr(broker.configs, "entity_names", names)
    monkeypatch.setattr(broker.configs, "names_of_clients_of_users", none)
    frame = memoryview(answer(broker, api_key, version, codec.request(api_key)(**request_fields)))
    described = codec.decode_response(api_key, version, frame[response_body_position(frame, api_key, version) :])
    assert len(getattr(described, listed)) == len(users)
    assert isinstance(broker.clock, WorkClock)
    assert broker.clock.turns > 10
    assert broker.clock.longest_s < LONGEST_TURN_S
