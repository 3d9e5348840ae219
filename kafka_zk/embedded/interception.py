"""Runs functions of this process that intercept requests and responses of brokers.

Each broker has a connection and a thread of its own, so the calls from one broker never overlap.
"""

import contextlib
import hmac
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka_zk.base.clock import monotonic_s
from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.embedded.ports import LOCALHOST
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.interception import (
    CALL_TIMEOUT_S,
    MOST_FRAME_BYTES,
    PASS,
    Call,
    Outcome,
    Verdict,
    decode_call,
    encode_verdict,
    framed,
)

_ACCEPT_TIMEOUT_S = 10
_SIZE = struct.Struct(">i")


class _Drop:
    def __repr__(self) -> str:
        return "DROP"


DROP: Final = _Drop()
"""An intercepting function returns it to close the client's connection without a response."""


@dataclass(slots=True, frozen=True)
class Exchange:
    """A request of a client, and the response to it.

    ``request``, ``response``: messages of ``kafka_zk.protocol``, whose fields have Kafka's names in lower case and can
    be changed. ``response`` is None before the broker has handled the request. ``broker``: the broker's id.
    """

    broker: int
    api: ApiKey
    version: int
    client_id: str | None
    request: Any
    response: Any = None

    def new_response(self, **fields: Any) -> Any:
        """A response to this request, with Kafka's defaults for other fields. Raises: AttributeError."""
        return codec.response(self.api)(**fields)


InterceptingFunction = Callable[[Exchange], Any]
"""Returns None to let the message pass, with changes made to it; another request, before it is handled; a response; or
DROP."""


class InterceptionServer:
    """Waits for the brokers that call ``on_request`` and ``on_response``, and runs these functions.

    Attributes:
        port: where brokers connect, on 127.0.0.1.
    """

    def __init__(self, on_request: InterceptingFunction | None, on_response: InterceptingFunction | None) -> None:
        self._on_request = on_request
        self._on_response = on_response
        self._listener = socket.create_server((LOCALHOST, 0))
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []
        self.port: int = self._listener.getsockname()[1]

    def accept(self, tokens: Mapping[int, str]) -> None:
        """Accept the connections of the brokers with these ids and tokens, then stop listening.

        Raises: EmbeddedError if a broker does not connect in time.
        """
        waiting = dict(tokens)
        deadline_s = monotonic_s() + _ACCEPT_TIMEOUT_S
        with self._listener:
            while waiting:
                self._listener.settimeout(max(0.001, deadline_s - monotonic_s()))
                try:
                    connection, _ = self._listener.accept()
                except TimeoutError:
                    missing = min(waiting)
                    raise EmbeddedError(f"broker {missing} does not connect to the intercepting function") from None
                self._connections.append(connection)
                broker_id = _identified(connection, waiting)
                if broker_id is None:
                    connection.close()
                else:
                    del waiting[broker_id]
                    self._start(broker_id, connection)

    def _start(self, broker_id: int, connection: socket.socket) -> None:
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        thread = threading.Thread(target=self._serve, args=(broker_id, connection), daemon=True)
        thread.start()
        self._threads.append(thread)

    def _serve(self, broker_id: int, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the broker has ended, or no longer waits
            while (frame := _receive(connection)) is not None:
                connection.sendall(framed(encode_verdict(self._verdict(broker_id, frame))))

    def _verdict(self, broker_id: int, frame: memoryview) -> Verdict:
        began_s = monotonic_s()
        try:
            verdict = self._judge(broker_id, decode_call(frame))
        except BaseException as error:  # includes pytest.fail, which is raised again in the test
            self._errors.append(error)
            return PASS
        if monotonic_s() - began_s > CALL_TIMEOUT_S:
            self._errors.append(_too_slow())
        return verdict

    def _judge(self, broker_id: int, call: Call) -> Verdict:
        """Raises what the function raises; TypeError or ValueError if it returns an impossible value."""
        key, version, _, client_id = call.header
        request = codec.decode_request(key, version, call.request)
        if call.response is None:
            function, message, response = self._on_request, request, None
        else:
            response = codec.decode_response(key, version, call.response)
            function, message = self._on_response, response
        assert function is not None, "the broker sends only what is intercepted"
        unchanged = codec.encode_body(message, key, version)
        returned = function(Exchange(broker_id, ApiKey(key), version, client_id, request, response))
        if returned is DROP:
            return Verdict(Outcome.DROP)
        changed = message if returned is None else returned
        outcome = _outcome(key, request, is_handled=response is not None, returned=changed)
        body = codec.encode_body(changed, key, version)
        return PASS if type(changed) is type(message) and body == unchanged else Verdict(outcome, body)

    def raise_error(self, consequence: Exception | None = None) -> None:
        """Raise the first error of the functions, if there was one, together with the error that it may have led to."""
        if self._errors and consequence is not None:
            raise self._errors[0] from consequence
        if self._errors:
            raise self._errors[0]

    def close(self) -> None:
        """Call this when no broker intercepts any more. A function that still runs has CALL_TIMEOUT_S to return."""
        self._listener.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):  # the broker has disconnected
                connection.shutdown(socket.SHUT_RDWR)
        deadline_s = monotonic_s() + CALL_TIMEOUT_S
        for thread in self._threads:
            thread.join(max(0, deadline_s - monotonic_s()))
            if thread.is_alive():
                self._errors.append(_too_slow())
        for connection in self._connections:
            connection.close()
        self._connections, self._threads = [], []


def _outcome(api_key: int, request: Any, *, is_handled: bool, returned: Any) -> Outcome:
    if isinstance(returned, codec.response(api_key)):
        if api_key == ApiKey.PRODUCE and request.acks == 0:
            raise ValueError("an intercepting function cannot respond to a Produce request with acks=0")
        return Outcome.RESPONSE
    if isinstance(returned, codec.request(api_key)) and not is_handled:
        return Outcome.REQUEST
    expected = "a response" if is_handled else "a request or a response"
    raise TypeError(f"an intercepting function returns None, DROP or {expected} of the API, not {returned!r:.200}")


def _too_slow() -> TimeoutError:
    return TimeoutError(
        f"an intercepting function needed more than {CALL_TIMEOUT_S} s, so the broker went on without it"
    )


def _identified(connection: socket.socket, tokens: Mapping[int, str]) -> int | None:
    """The broker that sends its token first; None for other peers."""
    connection.settimeout(_ACCEPT_TIMEOUT_S)
    try:
        given = bytes(_receive(connection) or b"")
    except OSError:
        return None
    found = [broker_id for broker_id, token in tokens.items() if hmac.compare_digest(token.encode(), given)]
    return found[0] if found else None


def _receive(connection: socket.socket) -> memoryview | None:
    """The next frame; None at the end of the connection. Raises: OSError."""
    size = _read(connection, _SIZE.size)
    if size is None:
        return None
    count = _SIZE.unpack(size)[0]
    if not 0 <= count <= MOST_FRAME_BYTES:
        raise OSError(f"a frame of {count} bytes")
    return _read(connection, count)


def _read(connection: socket.socket, count: int) -> memoryview | None:
    view = memoryview(bytearray(count))
    filled = 0
    while filled < count:
        received = connection.recv_into(view[filled:])
        if not received:
            return None
        filled += received
    return view
