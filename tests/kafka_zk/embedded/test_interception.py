"""The process of an intercepting function; the test acts as the broker."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafka_zk.embedded import interception
from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.embedded.interception import DROP, Exchange, InterceptingFunction, InterceptionServer
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.interception import Call, Outcome, Verdict, decode_verdict, encode_call, framed
from kafka_zk.protocol.request import RequestHeader

pytestmark = pytest.mark.integration

TOKEN = "0123456789abcdef"
BROKER = 3
VERSION = 1


class Broker:
    """``ask``: sends a call and returns the verdict."""

    def __init__(self, server: InterceptionServer, token: str = TOKEN) -> None:
        self.connection = socket.create_connection(("127.0.0.1", server.port))
        self.connection.sendall(framed(token.encode()))

    def send(self, api: ApiKey, request: Any, response: Any = None) -> None:
        call = Call(
            RequestHeader(api, VERSION, 7, "app"),
            codec.encode_body(request, api, VERSION),
            None if response is None else codec.encode_body(response, api, VERSION),
        )
        self.connection.sendall(framed(encode_call(call)))

    def receive(self) -> Verdict:
        size = self.connection.recv(4, socket.MSG_WAITALL)
        return decode_verdict(memoryview(self.connection.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL)))

    def ask(self, api: ApiKey, request: Any, response: Any = None) -> Verdict:
        self.send(api, request, response)
        return self.receive()


@contextmanager
def serving(
    on_request: InterceptingFunction | None = None, on_response: InterceptingFunction | None = None
) -> Iterator[tuple[InterceptionServer, Broker]]:
    server = InterceptionServer(on_request, on_response)
    broker = Broker(server)
    server.accept({BROKER: TOKEN})
    try:
        yield server, broker
    finally:
        server.close()
        broker.connection.close()


def metadata(*topics: str) -> Any:
    request = codec.request(ApiKey.METADATA)
    return request(topics=[request.MetadataRequestTopic(name=name) for name in topics])


def test_a_function_gets_typed_messages() -> None:
    seen: list[Exchange] = []
    with serving(seen.append, seen.append) as (_, broker):
        answer = codec.response(ApiKey.METADATA)(brokers=[], topics=[], controller_id=5)
        assert broker.ask(ApiKey.METADATA, metadata("t")).outcome is Outcome.PASS
        assert broker.ask(ApiKey.METADATA, metadata("t"), answer).outcome is Outcome.PASS
    assert [each.response for each in seen] == [None, answer]
    assert seen[1] == Exchange(BROKER, ApiKey.METADATA, VERSION, "app", metadata("t"), answer)


@pytest.mark.parametrize("is_returned", [True, False])
def test_a_change_takes_effect_whether_it_is_returned_or_not(is_returned: bool) -> None:
    def rename(exchange: Exchange) -> Any:
        exchange.request.topics[0].name = "other"
        return exchange.request if is_returned else None

    with serving(rename) as (_, broker):
        verdict = broker.ask(ApiKey.METADATA, metadata("t"))
    assert verdict.outcome is Outcome.REQUEST
    assert codec.decode_request(ApiKey.METADATA, VERSION, verdict.body) == metadata("other")


def test_a_response_or_nothing_replaces_the_brokers() -> None:
    with serving(lambda exchange: exchange.new_response(controller_id=9), lambda exchange: DROP) as (_, broker):
        verdict = broker.ask(ApiKey.METADATA, metadata())
        assert verdict.outcome is Outcome.RESPONSE
        assert codec.decode_response(ApiKey.METADATA, VERSION, verdict.body).controller_id == 9
        dropped = broker.ask(ApiKey.METADATA, metadata(), codec.response(ApiKey.METADATA)())
        assert dropped.outcome is Outcome.DROP


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda exchange: exchange.request.no_field, "no field 'no_field'"),
        (lambda exchange: "text", "returns None, DROP or a request or a response of the API, not 'text'"),
        (lambda exchange: codec.response(ApiKey.FETCH)(), "returns None, DROP"),
        (lambda exchange: pytest.fail("as a test does"), "as a test does"),
    ],
)
def test_the_message_passes_after_an_error_which_is_raised_at_the_end(
    function: InterceptingFunction, error: str
) -> None:
    with serving(function) as (server, broker):
        assert broker.ask(ApiKey.METADATA, metadata("t")).outcome is Outcome.PASS
        with pytest.raises(BaseException, match=error) as raised:
            server.raise_error()
    assert any(entry.name == "_judge" for entry in raised.traceback)


def test_a_request_that_gets_no_response_cannot_get_one() -> None:
    with serving(lambda exchange: exchange.new_response()) as (server, broker):
        broker.ask(ApiKey.PRODUCE, codec.request(ApiKey.PRODUCE)(acks=0, timeout_ms=1, topic_data=[]))
        with pytest.raises(ValueError, match="acks=0"):
            server.raise_error()


def test_a_function_that_does_not_return_delays_the_end_by_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interception, "CALL_TIMEOUT_S", 0.05)
    begun, released = threading.Event(), threading.Event()

    def hang(exchange: Exchange) -> None:
        begun.set()
        released.wait()

    with serving(hang) as (server, broker):
        broker.send(ApiKey.METADATA, metadata())
        begun.wait()
        server.close()
        released.set()
        with pytest.raises(TimeoutError, match=r"more than 0\.05 s"):
            server.raise_error()


def test_only_a_broker_with_the_token_is_heard() -> None:
    server = InterceptionServer(lambda exchange: DROP, None)
    stranger, silent = Broker(server, "0000000000000000"), socket.create_connection(("127.0.0.1", server.port))
    silent.close()
    broker = Broker(server)
    server.accept({BROKER: TOKEN})
    with stranger.connection, broker.connection:
        assert stranger.connection.recv(1) == b""
        assert broker.ask(ApiKey.METADATA, metadata()).outcome is Outcome.DROP
        server.close()


def test_a_broker_that_does_not_connect_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interception, "_ACCEPT_TIMEOUT_S", 0.01)
    server = InterceptionServer(None, None)
    with pytest.raises(EmbeddedError, match="broker 3 does not connect"):
        server.accept({BROKER: TOKEN})
    server.close()
