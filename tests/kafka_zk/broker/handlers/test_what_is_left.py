"""A completed request leaves nothing in memory that only the garbage collector would free."""

import gc
import struct
import weakref
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.protocol import Protocol
from twisted.internet.testing import StringTransport

from kafka_zk.base.types import FetchIsolation, TopicPartition
from kafka_zk.broker.handlers.table import OFFERED_VERSIONS, Dispatcher
from kafka_zk.network.connection import BrokerConnection
from kafka_zk.network.connection_settings import ConnectionSettings
from kafka_zk.network.memory_pool import MemoryPool
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, write_fetch_request
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.storage.files.errors import TooManyOpenFiles
from kafka_zk.storage.records.compression import Compression
from kafka_zk.storage.records.legacy_message_set import encode_message
from kafka_zk.storage.segments.file_slice import FileSlice
from tests.kafka_zk.broker.conftest import CONTEXT, Harness, batch
from tests.kafka_zk.broker.handlers.data.big_batches import SMALLEST_RECORD, batch_of
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import produce, produced

R = TypeVar("R")

pytestmark = pytest.mark.slow

Make = Callable[..., Harness]


@pytest.fixture
def broker(harness: Make) -> Harness:
    made = harness()
    made.configs.topics["own"] = {"compression.type": "gzip", "max.message.bytes": "10000000"}
    for topic in ("own", "t"):
        made.lead(topic)
    return made


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


PRODUCED = {
    "damaged": (9, "t", bytes(100)),
    "not there": (9, "nowhere", batch(b"x")),
    "taken apart here": (9, "own", batch_of(SMALLEST_RECORD * 10, 9, Compression.none)),
    "taken apart by a helper": (9, "own", batch_of(SMALLEST_RECORD * 50_000, 49_999, Compression.gzip)),
    "recompressed here": (9, "own", batch(b"x")),
    "recompressed by a helper": (9, "own", batch_of(SMALLEST_RECORD * 50_000, 50_000, Compression.zstd)),
    "too many": (9, "own", batch_of(SMALLEST_RECORD, 1_000_001, Compression.gzip)),
    "an old set": (2, "t", encode_message(0, 1, 0, 1, None, b"x") * 2 + bytes(20)),
    "an old set for a helper": (2, "t", encode_message(0, 1, 0, 1, None, bytes(100_000)) + bytes(20)),
}


class _Transport(StringTransport):
    """A ``FrameTransport`` that keeps the written bytes; requests arrive through ``dataReceived``."""

    on_drained: Callable[[], None] | None = None
    queued_size_bytes = queued_memory_bytes = 0

    def __init__(self) -> None:
        StringTransport.__init__(self)
        self.sent = bytearray()

    def receive_into(self, *arguments: object) -> None:
        """This transport reads no frames."""

    def write_frame(self, parts: Sequence[Part]) -> None:
        for part in parts:
            assert isinstance(part, bytes | bytearray | memoryview), "this transport reads no records"
            self.sent += part

    def taken_bytes(self) -> int:
        return len(self.sent)

    def hold(self) -> None:
        """Do nothing."""

    send_held = hold


class Asker:
    """A connection that gives access to weak references to its requests' bodies."""

    def __init__(self, broker: Harness) -> None:
        self._dispatcher = Dispatcher(broker.services)
        self._broker = broker
        self.bodies: list[weakref.ref[array[int]]] = []
        settings = ConnectionSettings(
            broker.clock, "PLAINTEXT", self._dispatch, versions=OFFERED_VERSIONS, memory=MemoryPool(1_000_000)
        )
        broker.services.replicas.run_in_thread = self._in_next_turn
        self._connection = BrokerConnection(settings, 1, lambda connection: None)
        self._transport = _Transport()
        Protocol.makeConnection(self._connection, self._transport)

    @property
    def is_closed(self) -> bool:
        return bool(self._transport.disconnecting)

    def _dispatch(self, context: RequestContext, header: RequestHeader, body: memoryview) -> Any:
        content = array("B", body)
        self.bodies.append(weakref.ref(content))
        return self._dispatcher.dispatch(context, header, memoryview(content))

    def _in_next_turn(self, work: Callable[[], R]) -> "Deferred[R]":
        done: Deferred[R] = Deferred()
        self._broker.clock.callLater(0, lambda: done.callback(work()))
        return done

    def ask(self, api_key: ApiKey, version: int, request: Any) -> bytes:
        frame = codec.encode_request(api_key, version, 7, "client", request)
        self._connection.dataReceived(struct.pack(">i", len(frame)) + frame)
        for _ in range(10):
            self._broker.clock.advance(0)
        return bytes(self._transport.sent)


@pytest.mark.parametrize("name", PRODUCED)
def test_a_batch_leaves_nothing(broker: Harness, no_collector: None, name: str) -> None:
    """If references remained, twenty batches of 50 MB would stay in memory until the collector runs."""
    version, topic, records = PRODUCED[name]
    asker = Asker(broker)
    assert asker.ask(ApiKey.PRODUCE, version, produce(records, topic=topic))
    assert [body() for body in asker.bodies] == [None]


def test_a_request_that_needs_too_much_leaves_nothing(broker: Harness, no_collector: None) -> None:
    """The broker refuses the request after it has decoded half of it."""
    asker = Asker(broker)
    request = codec.request(ApiKey.METADATA)
    topics = [request.MetadataRequestTopic(name=str(number)) for number in range(10_000)]
    asker.ask(ApiKey.METADATA, 1, request(topics=topics))
    assert asker.is_closed
    assert [body() for body in asker.bodies] == [None]


def test_an_answer_keeps_a_share_of_the_files_open(broker: Harness) -> None:
    """Without the share, a client that reads all partitions but does not receive its responses would use up the
    process's descriptors, and a log that cannot open its file takes its disk offline. Later responses return what this
    one omitted.
    """
    pool = broker.services.replicas.logs.pool
    pool.max_open_files = 32
    broker.lead("many", 40)
    for number in range(40):
        assert produced(broker, produce(batch(b"x"), topic="many", partition=number)).error_code == 0
    request = FetchRequest(
        1000, 10_000_000, [FetchTopic("many", None, [FetchPartition(number, 0, 1000) for number in range(40)])]
    )
    answers: list[Any] = []
    for _ in range(20):
        dispatched = Dispatcher(broker.services).dispatch(
            CONTEXT, RequestHeader(ApiKey.FETCH, 12, 7, "client"), memoryview(write_fetch_request(12, request))
        )
        ensureDeferred(dispatched).addCallback(answers.append)
    slices = [part for parts in answers for part in parts if isinstance(part, FileSlice)]
    assert len(answers) == 20
    assert len(slices) == 20 * 32 // 8


def test_readers_who_keep_too_many_files_are_refused_and_the_disk_is_well(broker: Harness) -> None:
    replicas = broker.services.replicas
    replicas.logs.pool.max_open_files = 10
    broker.lead("many", 40)
    for number in range(40):
        assert produced(broker, produce(batch(b"x"), topic="many", partition=number)).error_code == 0
    partitions = [TopicPartition("many", number) for number in range(40)]
    slices = [replicas.read(partition, 0, 1000, FetchIsolation.LOG_END)[1].slice for partition in partitions]
    for found in slices[:10]:
        assert found is not None
        found.retain()
    refused = slices[10]
    assert refused is not None
    with pytest.raises(TooManyOpenFiles) as raised:
        refused.retain()
    replicas.read_failed(TopicPartition("many", 10), refused, raised.value)
    assert produced(broker, produce(batch(b"x"), topic="many", partition=11)).error_code == 0
    assert replicas.logs.pool.open_count <= 11
    for found in slices[:10]:
        assert found is not None
        found.release()
    assert replicas.logs.pool.pinned_count == 0
    assert refused.retain() is refused
    refused.release()
