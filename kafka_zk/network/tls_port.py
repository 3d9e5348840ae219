"""A listener's TLS port, which limits the number and duration of handshakes.

Other clients' latency stays low, because a turn of the reactor runs few handshake steps. If a handshake takes longer
than ``HANDSHAKE_TIMEOUT_S``, its connection is closed. Imported on demand: it loads OpenSSL.
"""

import ssl
from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet import tcp
from twisted.internet.error import ConnectionLost
from twisted.logger import Logger

from kafka_zk.network.foreign_peers import ForeignPeers
from kafka_zk.network.tls_transport import TlsFrameTransport
from kafka_zk.network.transport import FramePort
from kafka_zk.security.tls import reason

HANDSHAKE_TIMEOUT_S = 10.0
HANDSHAKE_STEPS_PER_TURN = 8
"""Maximum number of handshake steps per turn; a step with RSA takes 0.5 ms."""

_log = Logger()


class HandshakeTurns:
    """Runs ``steps_per_turn`` handshake steps per reactor turn; others wait in order."""

    def __init__(self, reactor: Any, steps_per_turn: int = HANDSHAKE_STEPS_PER_TURN) -> None:
        self._reactor = reactor
        self._steps_per_turn = steps_per_turn
        self._left = steps_per_turn
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_due = False

    def run(self, step: Callable[[], None]) -> None:
        """Run ``step`` now or in a later turn."""
        self._waiting.append(step)
        if not self._is_due:
            self._is_due = True
            self._reactor.callLater(0, self._next_turn)
        self._run_waiting()

    def _next_turn(self) -> None:
        self._is_due = False
        self._left = self._steps_per_turn
        self._run_waiting()
        if self._waiting or self._left < self._steps_per_turn:
            self._is_due = True
            self._reactor.callLater(0, self._next_turn)

    def _run_waiting(self) -> None:
        while self._waiting and self._left:
            self._left -= 1
            step = self._waiting.popleft()
            try:
                step()
            except Exception:  # must not stop the steps of other connections
                _log.failure("a step of a TLS handshake failed: {step}", step=step)


class TlsFrameServer(TlsFrameTransport, tcp.Server):
    """An accepted connection, which is not read while a step of its handshake waits."""

    def __init__(self, sock: Any, protocol: Any, client: Any, server: "TlsPort", *args: Any) -> None:
        self._port = server
        self._set_up_tls(server.context)
        tcp.Server.__init__(self, sock, protocol, client, server, *args)
        self._is_stepping = False
        self._timeout = server.reactor.callLater(HANDSHAKE_TIMEOUT_S, self._take_too_long)

    def _received(self) -> Exception | None:
        if not self._handshaking:
            return self._go_on()
        if not self._is_stepping:
            self._is_stepping = True
            self.stopReading()  # type: ignore[no-untyped-call]
            self._port.turns.run(self._step)
        return None

    def _step(self) -> None:
        self._is_stepping = False
        self._run_guarded(self._go_on)
        self._read_on()

    def _read_on(self) -> None:
        if not self._is_stepping:
            super()._read_on()

    def _handshake_done(self) -> None:
        self._timeout.cancel()
        self.protocol.tls_established(self._tls.getpeercert(True))

    def _take_too_long(self) -> None:
        self._failure(TimeoutError(f"it takes longer than {HANDSHAKE_TIMEOUT_S:.0f} s"))
        self.abortConnection()

    def _failure(self, error: BaseException) -> Exception:
        said = _sentence(error)
        self._port.on_failure()
        host = self.getPeer().host
        more = self._port.failures.mention(f"{host} {said}", self._port.reactor.seconds())
        if more is not None:
            _log.info(
                "{host}: TLS has failed: {said} (logged once an hour for each address and reason){more}",
                host=host, said=said, more=more,
            )  # fmt: skip
        return ConnectionLost(said)

    def connectionLost(self, reason: Any) -> None:
        if self._timeout.active():
            self._timeout.cancel()
        super().connectionLost(reason)


def _sentence(error: BaseException) -> str:
    if isinstance(error, ssl.SSLEOFError):
        return "the peer closed the connection during the handshake"
    said = reason(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{said}: {error.verify_message}"
    if getattr(error, "reason", None) == "HTTP_REQUEST":
        return "the peer speaks HTTP, not HTTPS"
    if getattr(error, "reason", None) in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return f"the peer does not speak TLS, but perhaps Kafka's protocol in plain text ({said})"
    return said


class TlsPort(FramePort):
    """``on_failure``: called for each failed handshake.

    Attributes:
        context: for new connections; may be replaced.
        failures: the logged failures, as (address, reason).
        turns: the turns of all connections' handshakes.
    """

    transport = TlsFrameServer  # type: ignore[assignment]

    def __init__(self, context: ssl.SSLContext, on_failure: Callable[[], None], *args: Any) -> None:
        super().__init__(*args)
        self.context = context
        self.on_failure = on_failure
        self.failures = ForeignPeers()
        self.turns = HandshakeTurns(self.reactor)
