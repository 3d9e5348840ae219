"""A broker that leads a partition with followers, and the fetches of its followers."""

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.table import Dispatcher
from kafka_zk.broker.replica.alter_partition_manager import Answered, IsrChange
from kafka_zk.broker.replica.isr_state import WrittenIsr
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import FetchedPartition, FetchResponse, read_fetch_response
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, write_fetch_request
from kafka_zk.protocol.request import RequestHeader, response_body_position
from tests.kafka_zk.broker.conftest import CONTEXT, Harness, batch
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import produce, produced

T = TopicPartition("t", 0)
VERSION = 17


class Asked:
    """The receiver of ISR changes: the test responds to them."""

    def __init__(self) -> None:
        self.changes: list[tuple[IsrChange, Answered]] = []

    def submit(self, change: IsrChange, answered: Answered) -> None:
        self.changes.append((change, answered))

    def answer(self, code: ErrorCode | None = None) -> IsrChange:
        change, answered = self.changes.pop()
        written = WrittenIsr(change.leader_epoch, change.isr, change.partition_epoch + 1)
        answered(written if code is None else code)
        return change


class Leader:
    """Broker 0 leads t-0 with followers 1 and 2."""

    def __init__(self, broker: Harness, **state: Any) -> None:
        self.broker = broker
        self.asked = Asked()
        self.dead: set[int] = set()
        replicas = broker.services.replicas
        replicas.in_sync_rule = replicas.in_sync_rule._replace(is_alive=lambda broker_id: broker_id not in self.dead)
        replicas.isr_updates.alter_partitions = self.asked
        self.topic_id = broker.lead("t", **{"replicas": [0, 1, 2], "isr": [0, 1, 2], "leader_epoch": 4, **state})

    @property
    def partition(self) -> Any:
        return self.broker.services.replicas.partition(T)

    @property
    def high_watermark(self) -> int:
        return int(self.partition.log.high_watermark)

    def append(self, *values: bytes, acks: int = 1) -> None:
        for value in values:
            assert produced(self.broker, produce(batch(value), acks=acks)).error_code == 0

    def send(self, offset: int, follower: int = 1, version: int = VERSION, **fields: Any) -> "Deferred[FetchResponse]":
        """``fields`` are of the partition or of the request; ``partitions`` replaces the single partition."""
        of_partition = {key: fields.pop(key) for key in list(fields) if key in FetchPartition._fields}
        epoch = 4 if version >= 9 else -1
        partition = FetchPartition(**{
            "partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "current_leader_epoch": epoch,
            "log_start_offset": 0, **of_partition,
        })  # fmt: skip
        topic, topic_id = (None, self.topic_id.bytes) if version >= 13 else ("t", None)
        topics = [FetchTopic(topic, topic_id, [partition])]
        request = FetchRequest(**{
            "max_wait_ms": 0, "min_bytes": 1, "topics": topics, "replica_id": follower, "replica_epoch": 50, **fields,
        })  # fmt: skip
        body = memoryview(bytearray(write_fetch_request(version, request)))
        header = RequestHeader(ApiKey.FETCH, version, 7, f"broker-{follower}-fetcher-0")
        sent = maybeDeferred(Dispatcher(self.broker.services).dispatch, CONTEXT, header, body)
        return sent.addCallback(_decoded, version)

    def fetch(self, offset: int, follower: int = 1, version: int = VERSION, **fields: Any) -> FetchedPartition:
        return self.fetch_all(offset, follower, version, **fields).topics[0].partitions[0]

    def fetch_all(self, offset: int, follower: int = 1, version: int = VERSION, **fields: Any) -> FetchResponse:
        answer: list[FetchResponse] = []
        self.send(offset, follower, version, **fields).addCallback(answer.append)
        [response] = answer
        return response

    def pass_time(self, ms: int) -> None:
        self.broker.clock.advance(ms / 1000)

    def shrink(self) -> None:
        list(self.broker.services.replicas.isr_updates.shrink([self.partition]))


def _decoded(parts: list[Any], version: int) -> FetchResponse:
    frame = memoryview(b"".join(part if isinstance(part, bytes | bytearray) else part.read() for part in parts))
    return read_fetch_response(version, frame[response_body_position(frame, ApiKey.FETCH, version) :])


Make = Callable[..., Leader]


@pytest.fixture
def make(harness: Callable[..., Harness]) -> Make:
    return lambda **state: Leader(harness(), **state)


def size(result: FetchedPartition) -> int:
    return 0 if result.records is None else len(result.records)
