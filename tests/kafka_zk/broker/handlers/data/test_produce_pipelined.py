"""Several Produce requests of one connection wait for the followers together: real handlers, a real log."""

import struct
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.protocol import Protocol

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.table import OFFERED_VERSIONS, Dispatcher
from kafka_zk.broker.metrics.request_stats import RequestStats
from kafka_zk.broker.replica import delayed_produce
from kafka_zk.broker.replica.transaction_verification import TransactionVerification
from kafka_zk.network.connection_settings import ConnectionSettings
from kafka_zk.network.in_flight import MAX_REQUESTS
from kafka_zk.network.memory_pool import MemoryPool
from kafka_zk.network.supervised_connection import SupervisedConnection
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestHeader, request_header, response_body_position
from tests.kafka_zk.broker.conftest import CONTEXT, Harness, batch
from tests.kafka_zk.broker.handlers.data.replicating_leader import Leader
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import fetch, produce
from tests.kafka_zk.broker.handlers.transactions.test_transactions_in_logs import produce as transactional_produce
from tests.kafka_zk.broker.handlers.transactions.test_transactions_in_logs import transactional
from tests.kafka_zk.network.test_in_flight import Wire

VERSIONS = {ApiKey.PRODUCE: 9, ApiKey.FETCH: 11}


class ByteWire(Wire):
    """A wire that keeps whole responses."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[bytes] = []

    def write_frame(self, parts: list[Any]) -> None:
        super().write_frame(parts)
        self.frames.append(b"".join(part if isinstance(part, bytes | bytearray) else part.read() for part in parts))


class Client:
    """A connection to the leader of t-0; its followers fetch when the test says so."""

    def __init__(self, broker: Harness, **state: Any) -> None:
        self.leader = Leader(broker, **state)
        self.broker = broker
        self.wire = ByteWire()
        self.pool = MemoryPool()
        self.stats = RequestStats()
        dispatch = self.stats.measure(Dispatcher(broker.services).dispatch)
        settings = ConnectionSettings(
            broker.clock, "PLAINTEXT", dispatch, versions=OFFERED_VERSIONS, memory=self.pool
        )
        self.connection = SupervisedConnection(settings, 1, lambda connection: None)
        Protocol.makeConnection(self.connection, self.wire)
        self._apis: list[ApiKey] = []

    def send(self, message: Any, api_key: ApiKey = ApiKey.PRODUCE) -> None:
        version = VERSIONS[api_key]
        header = request_header(api_key, version, len(self._apis), "client")
        self._apis.append(api_key)
        data = header + codec.encode_body(message, api_key, version)
        self.connection.dataReceived(struct.pack(">i", len(data)) + data)

    def send_batch(self, *, timeout_ms: int = 1000, **builder: Any) -> None:
        message = produce(batch(b"x" * 20_000, **builder))
        message.timeout_ms = timeout_ms
        self.send(message)

    @property
    def answers(self) -> list[Any]:
        answers = []
        for number, frame in enumerate(self.wire.frames):
            assert struct.unpack(">i", frame[:4]) == (number,)
            api_key = self._apis[number]
            body = frame[response_body_position(memoryview(frame), api_key, VERSIONS[api_key]) :]
            answers.append(codec.decode_response(api_key, VERSIONS[api_key], memoryview(body)))
        return answers

    @property
    def codes(self) -> list[int]:
        """For each produced batch its offset, or the error code as a negative number."""
        results = [answer.responses[0].partition_responses[0] for answer in self.answers]
        return [-result.error_code or result.base_offset for result in results]

    def replicate(self, offset: int) -> None:
        """Both followers have everything below ``offset``."""
        self.leader.fetch(offset, 1)
        self.leader.fetch(offset, 2)

    @property
    def log_end_offset(self) -> int:
        return int(self.leader.partition.log.log_end_offset)


Make = Callable[..., Client]


@pytest.fixture
def make(harness: Callable[..., Harness]) -> Make:
    return lambda **state: Client(harness(), **state)


def test_batches_of_a_connection_are_replicated_together(make: Make) -> None:
    """One round trip of the followers serves all batches."""
    client = make()
    for _ in range(3):
        client.send_batch()
    assert (client.log_end_offset, client.codes) == (3, [])
    client.replicate(2)
    assert client.codes == [0, 1]
    client.replicate(3)
    assert client.codes == [0, 1, 2]
    assert client.stats.requests[0, 9][0] == 3
    assert client.stats.produced_bytes > 3 * 20_000


def test_a_request_that_waits_holds_neither_its_records_nor_their_memory(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make()
    frames: list[bytearray] = []
    handle = client.connection._handle

    def watch(frame: memoryview) -> None:
        frames.append(frame.obj)  # type: ignore[arg-type]
        handle(frame)

    monkeypatch.setattr(client.connection, "_handle", watch)
    for _ in range(MAX_REQUESTS):
        client.send_batch()
    assert 0 < client.pool.used_bytes < MAX_REQUESTS * 6_000
    for frame in frames:
        frame.clear()  # raises BufferError if a view of the frame is left
    client.replicate(MAX_REQUESTS)
    assert len(client.codes) == MAX_REQUESTS and client.pool.used_bytes == 0


def test_a_request_to_many_partitions_lets_nobody_pass(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of a waiting request takes memory for every partition, so the next request must not start before it."""
    monkeypatch.setattr(delayed_produce, "_MOST_PASSED", 0)
    client = make()
    client.send_batch()
    client.send_batch()
    assert client.log_end_offset == 1 and client.pool.used_bytes > 20_000
    client.replicate(1)
    assert client.log_end_offset == 2
    client.replicate(2)
    assert client.codes == [0, 1] and client.pool.used_bytes == 0


def test_an_earlier_request_times_out_by_itself(make: Make) -> None:
    """The responses of the later requests come when they are ready."""
    client = make()
    client.send_batch(timeout_ms=1000)
    client.send_batch(timeout_ms=5000)
    client.leader.pass_time(1000)
    assert client.codes == [-ErrorCode.REQUEST_TIMED_OUT]
    client.replicate(2)
    assert client.codes == [-ErrorCode.REQUEST_TIMED_OUT, 1]


def test_a_later_request_that_times_out_first_waits_for_its_turn(make: Make) -> None:
    client = make()
    client.send_batch(timeout_ms=5000)
    client.send_batch(timeout_ms=1000)
    client.leader.pass_time(1000)
    assert client.codes == []
    client.replicate(1)
    assert client.codes == [0, -ErrorCode.REQUEST_TIMED_OUT]


def test_too_few_in_sync_is_told_of_each_request_by_itself(make: Make) -> None:
    """The first was appended with enough replicas in sync, and committed with too few; the second was not appended."""
    client = make(isr=[0, 1])
    client.broker.configs.topics["t"] = {"min.insync.replicas": "2"}
    list(client.broker.services.replicas.update_topic_configs({"t": {"min.insync.replicas": "2"}}))
    client.send_batch()
    client.send_batch()
    client.leader.fetch(1, 1)
    assert client.codes == [0]
    client.leader.partition.remotes.followers[1].last_caught_up_ms -= 60_000
    client.leader.pass_time(0)
    client.leader.shrink()
    client.leader.asked.answer()
    client.send_batch()
    assert client.codes == [0]  # below the minimum the watermark stands still, so the second request times out
    client.leader.pass_time(1000)
    assert client.codes == [0, -ErrorCode.REQUEST_TIMED_OUT, -ErrorCode.NOT_ENOUGH_REPLICAS]


def test_a_gap_in_the_sequence_is_refused_in_its_turn(make: Make) -> None:
    client = make()
    for sequence in (0, 1, 5, 2):
        client.send_batch(producer_id=7, producer_epoch=0, base_sequence=sequence)
    assert client.log_end_offset == 3
    client.replicate(3)
    assert client.codes == [0, 1, -ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 2]


def test_a_retry_behind_its_first_attempt_is_answered_with_the_same_offset(make: Make) -> None:
    client = make()
    for sequence in (0, 1, 0):
        client.send_batch(producer_id=7, producer_epoch=0, base_sequence=sequence)
    assert (client.log_end_offset, client.codes) == (2, [])
    client.replicate(2)
    assert client.codes == [0, 1, 0]


def test_a_leader_that_steps_down_tells_all_that_wait(make: Make) -> None:
    client = make()
    client.send_batch()
    client.send_batch()
    client.broker.services.replicas.stop_replica(TopicPartition("t", 0), -1, delete=False)
    assert client.codes == [-ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2


def test_a_fetch_between_sees_what_was_produced_before_it(make: Make) -> None:
    client = make()
    client.send_batch()
    client.send(fetch(0), ApiKey.FETCH)
    client.send_batch()
    assert client.log_end_offset == 1
    client.replicate(1)
    assert client.log_end_offset == 2
    [_, fetched] = client.answers
    assert fetched.responses[0].partitions[0].high_watermark == 1
    client.replicate(2)
    assert len(client.wire.frames) == 3


def test_the_end_of_the_broker_answers_all_that_wait(make: Make) -> None:
    client = make()
    client.send_batch()
    client.send_batch()
    client.broker.services.fetch_purgatory.abandon_all()
    assert client.codes == [-ErrorCode.REQUEST_TIMED_OUT] * 2


def test_a_client_that_is_gone_is_waited_for_no_longer(make: Make) -> None:
    client = make()
    client.send_batch()
    client.send_batch()
    assert client.broker.services.fetch_purgatory.count == 2
    client.connection.connectionLost()
    assert client.broker.services.fetch_purgatory.count == client.pool.used_bytes == 0
    client.replicate(2)
    assert client.codes == []


def test_others_that_need_memory_do_not_hurry_a_request(make: Make) -> None:
    """Otherwise, the request would fail with a timeout."""
    client = make()
    client.send_batch()
    client.connection.expire_request_early()
    assert client.codes == []


@pytest.mark.parametrize("acks", [0, 1])
def test_a_request_that_waits_for_nobody_is_answered_in_its_turn(make: Make, acks: int) -> None:
    client = make()
    client.send_batch()
    client.send(produce(batch(b"y"), acks=acks))
    assert (client.log_end_offset, client.wire.sent) == (2, [])
    client.replicate(2)
    assert client.wire.sent == [0, 1][: 1 + acks]


class _Frame(bytearray):
    """A frame with a weak reference, which shows how long the frame is used."""


def test_a_request_of_which_something_was_not_verified_holds_no_records_either(harness: Callable[..., Harness]) -> None:
    broker = harness()
    broker.lead("t", 2, replicas=[0, 1], isr=[0, 1])
    replicas = broker.services.replicas
    refused = TopicPartition("t", 1)

    async def ask(*_: Any) -> dict[TopicPartition, ErrorCode]:
        return {refused: ErrorCode.INVALID_TXN_STATE}

    replicas.verification = TransactionVerification(
        lambda tp: replicas.partition(tp).leader_log(), lambda: True, ask, lambda: 0
    )
    message = transactional_produce((0, transactional()), (1, transactional()))
    frame = _Frame(codec.encode_body(message, ApiKey.PRODUCE, 9))
    held = weakref.ref(frame)
    header = RequestHeader(ApiKey.PRODUCE, 9, 0, "client")
    answers: list[Any] = []
    handling = ensureDeferred(Dispatcher(broker.services).dispatch(CONTEXT, header, memoryview(frame)))
    handling.addCallback(answers.append)
    del frame
    assert held() is None and not answers
    broker.clock.advance(1)
    body = answers[0][0]
    answer = codec.decode_response(
        ApiKey.PRODUCE, 9, memoryview(body)[response_body_position(memoryview(body), ApiKey.PRODUCE, 9) :]
    )
    found = [each.error_code for each in answer.responses[0].partition_responses]
    assert found == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_TXN_STATE]


def test_a_timeout_below_zero_is_over_at_once(make: Make) -> None:
    client = make()
    client.send_batch(timeout_ms=-1)
    client.broker.clock.advance(0)
    assert client.codes == [-ErrorCode.REQUEST_TIMED_OUT]
    assert client.broker.services.fetch_purgatory.count == 0
