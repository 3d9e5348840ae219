"""The broker's connection to an intercepting function: it makes one call at a time, and every call has a timeout."""

import socket
from typing import Any, cast

import pytest
from twisted.internet.testing import MemoryReactorClock

from kafka_zk.broker.faults.interceptor import connect_interceptor
from kafka_zk.protocol.interception import CALL_TIMEOUT_S, PASS, Call, Outcome, Verdict
from kafka_zk.protocol.request import RequestHeader
from tests.kafka_zk.broker.faults.conftest import TOKEN, Function

HEADER = RequestHeader(3, 1, 7, "app")
DROP = Verdict(Outcome.DROP)
LOST = "the function that intercepts requests is lost"


@pytest.fixture
def function() -> Function:
    return Function()


def ask(function: Function, request: bytes, verdicts: list[Verdict]) -> None:
    function.interceptor.ask(Call(HEADER, request)).addCallback(verdicts.append)


def requests(function: Function) -> list[bytes]:
    return [bytes(call.request) for call in function.receive()]


def test_the_token_comes_first_and_calls_one_at_a_time(function: Function) -> None:
    verdicts: list[Verdict] = []
    for request in (b"first", b"second"):
        ask(function, request, verdicts)
    assert function.token == TOKEN.encode()
    assert requests(function) == [b"first"]
    function.answer(DROP)
    assert requests(function) == [b"first", b"second"]
    function.answer(PASS)
    assert [verdict.outcome for verdict in verdicts] == [Outcome.DROP, Outcome.PASS]
    assert not function.clock.getDelayedCalls()


@pytest.mark.parametrize("event", ["silence", "end", "garbage", "unasked"])
def test_requests_pass_once_the_function_is_lost_and_the_log_has_one_line(
    event: str, function: Function, caplog: pytest.LogCaptureFixture
) -> None:
    verdicts: list[Verdict] = []
    lost: list[bool] = []
    function.interceptor.on_lost = lambda: lost.append(True)
    if event == "unasked":
        function.answer(PASS)
    for request in (b"first", b"second"):
        ask(function, request, verdicts)
    if event == "silence":
        function.clock.advance(CALL_TIMEOUT_S - 0.1)
        assert not verdicts
        function.clock.advance(0.1)
    elif event == "end":
        function.interceptor.connectionLost()
    elif event == "garbage":
        function.interceptor.dataReceived(b"\0\0\0\x01\xff")
    assert verdicts == [PASS, PASS] and lost == [True] and function.transport.disconnecting
    ask(function, b"later", verdicts)
    function.interceptor.connectionLost()
    assert verdicts[2:] == [PASS]
    assert [record.message for record in caplog.records if LOST in record.message].__len__() == 1


def test_the_end_of_the_fault_lets_waiting_requests_pass_and_logs_nothing(
    function: Function, caplog: pytest.LogCaptureFixture
) -> None:
    verdicts: list[Verdict] = []
    ask(function, b"first", verdicts)
    function.interceptor.close()
    function.interceptor.connectionLost()
    assert verdicts == [PASS]
    assert not function.clock.getDelayedCalls() and LOST not in caplog.text


def test_it_connects_only_to_this_machine() -> None:
    reactor = MemoryReactorClock()
    waiting = cast(Any, connect_interceptor(reactor, TOKEN, 9))
    waiting.send(None)
    [(host, port, *_)] = reactor.tcpClients
    assert (host, port) == ("127.0.0.1", 9)
    assert socket.inet_aton(host)[0] == 127
