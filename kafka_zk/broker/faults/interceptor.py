"""The broker's connection to a function that intercepts requests and responses, in a process on the same machine.

Calls are sent one at a time, in order. If that process ends, or takes longer than CALL_TIMEOUT_S for a call, the
connection is lost. Then waiting calls and all later ones pass unchanged, and one line is logged.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectError
from twisted.internet.protocol import ClientCreator
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.logger import Logger

from kafka_zk.base.clock import Timers
from kafka_zk.broker.faults.errors import InvalidFault
from kafka_zk.embedded.ports import LOCALHOST
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.frame import FrameDecoder
from kafka_zk.protocol.interception import (
    CALL_TIMEOUT_S,
    MOST_FRAME_BYTES,
    PASS,
    Call,
    Verdict,
    decode_verdict,
    encode_call,
    framed,
)

_CONNECT_TIMEOUT_S = 5
_log = Logger()

ConnectInterceptor = Callable[[int], Awaitable["Interceptor"]]
"""Connects to the function that listens at a port of this machine. Raises: InvalidFault."""


class Interceptor(TwistedProtocol):
    """``is_closed``: calls pass without being sent. ``on_lost``: called once if the connection is lost."""

    def __init__(self, clock: Timers, token: str) -> None:
        self._clock = clock
        self._token = token
        self._decoder = FrameDecoder(MOST_FRAME_BYTES)
        self._calls: deque[tuple[Call, Deferred[Verdict]]] = deque()  # the first call has been sent
        self._timer: Any = None
        self.is_closed = False
        self.on_lost: Callable[[], None] = lambda: None

    def connectionMade(self) -> None:
        transport: Any = self.transport
        transport.setTcpNoDelay(True)
        transport.write(framed(self._token.encode()))

    def ask(self, call: Call) -> "Deferred[Verdict]":
        """The function's verdict; PASS if the connection is closed."""
        if self.is_closed:
            return succeed(PASS)
        verdict: Deferred[Verdict] = Deferred()
        self._calls.append((call, verdict))
        if len(self._calls) == 1:
            self._send()
        return verdict

    def _send(self) -> None:
        transport: Any = self.transport
        transport.write(framed(encode_call(self._calls[0][0])))
        self._timer = self._clock.callLater(CALL_TIMEOUT_S, self._timed_out)

    def _timed_out(self) -> None:
        self._lose(f"it has not answered for {CALL_TIMEOUT_S} s")

    def dataReceived(self, data: bytes) -> None:
        try:
            for frame in self._decoder.feed(data):
                self._answer(decode_verdict(frame))
        except ProtocolError as error:
            self._lose(str(error))

    def _answer(self, verdict: Verdict) -> None:
        if not self._calls:
            raise ProtocolError("it answered although it was not asked")
        _, waiting = self._calls.popleft()
        self._stop_timer()
        if self._calls:
            self._send()
        waiting.callback(verdict)

    def connectionLost(self, reason: Any = None) -> None:
        self._lose("its process has closed the connection")

    def _lose(self, reason: str) -> None:
        if not self.is_closed:
            _log.warn("the function that intercepts requests is lost, so all requests pass: {reason}", reason=reason)
            self.close()
            self.on_lost()

    def close(self) -> None:
        """End the connection. Waiting calls pass unchanged."""
        self.is_closed = True
        self._stop_timer()
        transport: Any = self.transport
        transport.abortConnection()
        calls, self._calls = self._calls, deque()
        for _, waiting in calls:
            waiting.callback(PASS)

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()


async def connect_interceptor(reactor: Any, token: str, port: int) -> Interceptor:
    """Connect to the function at a port of this machine. Functions on other machines cannot intercept requests.
    Raises: InvalidFault."""
    creator = ClientCreator(reactor, Interceptor, reactor, token)
    try:
        connected: Interceptor = await creator.connectTCP(LOCALHOST, port, timeout=_CONNECT_TIMEOUT_S)
    except ConnectError as error:
        raise InvalidFault(f"no function can be reached at port {port} of this machine: {error}") from None
    return connected
