"""The client connection, against our own listener."""

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionClosed, ConnectionRefusedError

from kafka_zk.network.client import KafkaConnection, RequestTimedOut, connect
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode, ProtocolError
from kafka_zk.protocol.request import RequestHeader
from kafka_zk.protocol.response_limits import MAX_BATCH_BYTES, MAX_RESPONSE_BYTES
from tests.kafka_zk.network.harness import LocalReactor
from tests.kafka_zk.network.server import Server


def api_versions(header: RequestHeader, offered: dict[ApiKey, tuple[int, int]]) -> Any:
    cls = codec.response(18)
    entries = [
        cls.ApiVersion(api_key=int(key), min_version=low, max_version=high) for key, (low, high) in offered.items()
    ]
    message = cls(error_code=0, api_keys=entries)
    return [codec.encode_response(18, header.api_version, header.correlation_id, message)]


class Broker(Server):
    """A broker that responds to ApiVersions itself, and to everything else with ``answer``."""

    def __init__(self, reactor: LocalReactor, offered: dict[ApiKey, tuple[int, int]] | None = None) -> None:
        versions = BROKER_VERSIONS if offered is None else offered
        super().__init__(reactor, versions=versions)
        self.answer: Callable[[RequestHeader, bytes], Any] = lambda header, body: Deferred()
        self.handler = lambda header, body: (
            api_versions(header, versions) if header.api_key == ApiKey.API_VERSIONS else self.answer(header, body)
        )

    def connection(self, **options: Any) -> KafkaConnection:
        made = connect(self.reactor, "127.0.0.1", self.port, "tester", **options)
        connection: KafkaConnection = self.reactor.result_of(made)
        return connection


@pytest.fixture
def make_broker(reactor: LocalReactor) -> Iterator[Callable[..., Broker]]:
    brokers: list[Broker] = []

    def make(offered: dict[ApiKey, tuple[int, int]] | None = None) -> Broker:
        brokers.append(Broker(reactor, offered))
        return brokers[-1]

    yield make
    for broker in brokers:
        broker.close()


@pytest.fixture
def broker(make_broker: Callable[..., Broker]) -> Broker:
    return make_broker()


def heartbeat_answer(header: RequestHeader, error_code: int = 0) -> list[bytes | bytearray]:
    message = codec.response(12)(error_code=error_code)
    return [codec.encode_response(12, header.api_version, header.correlation_id, message)]


def heartbeat(connection: KafkaConnection, **options: Any) -> "Deferred[Any]":
    return connection.request(ApiKey.HEARTBEAT, group_id="g", generation_id=1, member_id="m", **options)


def test_versions_are_negotiated_at_connect(broker: Broker) -> None:
    connection = broker.connection()
    assert connection.versions == BROKER_VERSIONS
    assert connection.version_for(ApiKey.FETCH) == 17


def test_an_older_broker_is_asked_again_in_a_version_it_knows(make_broker: Callable[..., Broker]) -> None:
    """KIP-511: error 35 with a version 0 body."""
    broker = make_broker({ApiKey.API_VERSIONS: (0, 2), ApiKey.METADATA: (0, 5)})
    connection = broker.connection()
    assert connection.version_for(ApiKey.METADATA) == 5
    with pytest.raises(ApiError) as raised:
        connection.version_for(ApiKey.FETCH)
    assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(ApiError):
        broker.reactor.result_of(connection.request(ApiKey.FETCH))


def test_many_requests_are_in_flight_and_answered_each(broker: Broker) -> None:
    broker.answer = lambda header, body: heartbeat_answer(header, header.correlation_id % 100)
    connection = broker.connection()
    answers = [heartbeat(connection) for _ in range(50)]
    assert connection.in_flight == 50
    codes = [broker.reactor.result_of(answer).error_code for answer in answers]
    assert codes == list(range(codes[0], codes[0] + 50))
    assert connection.in_flight == 0


def test_everything_that_waits_fails_when_the_connection_is_lost(broker: Broker) -> None:
    connection = broker.connection()
    reasons: list[Any] = []
    connection.on_disconnect = reasons.append
    waiting = [heartbeat(connection) for _ in range(3)]
    broker.reactor.until(lambda: any(header == 2 or True for header, _ in broker.handled[1:]))
    broker.listener.connections[0].abort()
    for answer in waiting:
        with pytest.raises(ConnectionClosed):
            broker.reactor.result_of(answer)
    assert len(reasons) == 1
    with pytest.raises(ConnectionClosed):
        broker.reactor.result_of(heartbeat(connection))


def test_a_request_without_answer_times_out_and_ends_the_connection(broker: Broker) -> None:
    connection = broker.connection()
    with pytest.raises(RequestTimedOut):
        broker.reactor.result_of(heartbeat(connection, timeout_s=0.05))
    assert not connection.connected_to_broker


def test_disconnect_fires_when_the_connection_is_closed(broker: Broker) -> None:
    connection = broker.connection()
    waiting = heartbeat(connection)
    broker.reactor.result_of(connection.disconnect())
    with pytest.raises(ConnectionClosed):
        broker.reactor.result_of(waiting)
    broker.reactor.until(lambda: not broker.listener.connections)


def test_a_listener_that_fails_keeps_nobody_waiting_for_the_end(broker: Broker) -> None:
    connection = broker.connection()

    def fail(reason: Any) -> None:
        raise ZeroDivisionError

    connection.on_disconnect = fail
    broker.reactor.result_of(connection.disconnect())
    assert connection.lost is not None


def test_nobody_there_is_an_error(reactor: LocalReactor) -> None:
    with pytest.raises(ConnectionRefusedError):
        reactor.result_of(connect(reactor, "127.0.0.1", 1, "tester"))


def test_a_raw_request_goes_out_in_parts_and_its_answer_comes_back_as_a_view(broker: Broker) -> None:
    broker.answer = lambda header, body: [struct.pack(">ib", header.correlation_id, 0), body[-3:]]
    connection = broker.connection()
    big = bytes(3 * 1024 * 1024) + b"end"
    answer = broker.reactor.result_of(connection.send_raw(0, 11, [b"head", memoryview(big)]))
    assert isinstance(answer, memoryview)
    assert bytes(answer) == b"end"
    assert broker.handled[-1][1] == b"head" + big


def test_a_raw_request_without_answer_is_done_at_once(broker: Broker) -> None:
    broker.answer = lambda header, body: None
    connection = broker.connection()
    done = connection.send_raw(0, 11, [b"acks=0"], expect_response=False)
    assert broker.reactor.result_of(done) == b""
    assert connection.in_flight == 0
    broker.reactor.until(lambda: broker.handled[-1][1] == b"acks=0")


def test_a_malformed_answer_fails_its_request(broker: Broker) -> None:
    broker.answer = lambda header, body: [struct.pack(">ib", header.correlation_id, 0) + b"\xff"]
    connection = broker.connection()
    with pytest.raises(ProtocolError):
        broker.reactor.result_of(heartbeat(connection))


def test_an_answer_that_nobody_asked_for_ends_the_connection(broker: Broker) -> None:
    broker.answer = lambda header, body: [struct.pack(">ib", 12345, 0)]
    connection = broker.connection()
    with pytest.raises(ProtocolError):
        broker.reactor.result_of(heartbeat(connection))
    assert not connection.connected_to_broker


@pytest.mark.parametrize(
    ("api_key", "version", "body", "limit_bytes"),
    [
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, bytes(100), 64 * 1024 + 800),
        (ApiKey.FETCH, 12, struct.pack(">iiii", -1, 0, 0, 1_000_000) + bytes(100), MAX_BATCH_BYTES + 1_000_000),
        (ApiKey.FETCH, 15, struct.pack(">iii", 0, 0, 1_000_000) + bytes(100), MAX_BATCH_BYTES + 1_000_000),
        (ApiKey.METADATA, 9, bytes(3), MAX_RESPONSE_BYTES),
    ],
)
def test_a_response_that_announces_more_than_was_asked_for_ends_the_connection(
    reactor: LocalReactor, broker: Broker, api_key: ApiKey, version: int, body: bytes, limit_bytes: int
) -> None:
    """The connection ends before any of the response is received; otherwise, 2 GB could be kept in memory."""
    answers: list[Any] = []
    connection = broker.connection()
    connection.send_raw(api_key, version, [body]).addErrback(answers.append)
    for size_bytes, is_refused in ((limit_bytes, False), (limit_bytes + 1, True)):
        connection._decoder.close()
        connection.dataReceived(struct.pack(">i", size_bytes) + bytes(8))
        assert (connection._end_reason is not None) == is_refused
    reactor.until(lambda: answers)
    assert isinstance(answers[0].value, ProtocolError)


def test_what_nothing_asked_for_ends_the_connection(reactor: LocalReactor, broker: Broker) -> None:
    connection = broker.connection()
    connection.dataReceived(struct.pack(">i", 100))
    assert isinstance(connection._end_reason, ProtocolError)
    reactor.until(lambda: connection.lost)


def test_a_part_of_a_response_is_freed_with_the_connection(reactor: LocalReactor, broker: Broker) -> None:
    connection = broker.connection()
    answers: list[Any] = []
    connection.send_raw(ApiKey.METADATA, 9, [bytes(3)]).addErrback(answers.append)
    connection.dataReceived(struct.pack(">i", 50_000_000) + bytes(1_000_000))
    assert connection._decoder.buffered_size_bytes == 1_000_000
    connection.disconnect()
    reactor.until(lambda: answers)
    assert connection._decoder.buffered_size_bytes == 0
