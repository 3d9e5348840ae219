"""One blocking broker connection for executors: a socket with optional TLS and SASL; no reactor, no thread.

Requests may be pipelined: responses arrive in the order of the requests, one ``receive`` for each ``send``.
"""

import math
import socket
import struct
from typing import Any

import numpy as np

from kafka_zk.base.clock import monotonic_s
from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode, ProtocolError
from kafka_zk.protocol.fetch import FetchResponse, read_fetch_response
from kafka_zk.protocol.fetch_request import FetchRequest, write_fetch_request
from kafka_zk.protocol.request import correlation_id_of, request_header, response_body_position
from kafka_zk.protocol.sasl_exchange import REAUTHENTICATE_FROM, REAUTHENTICATE_UNTIL, sasl_exchange
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity, SaslSettings
from kafka_zk.security.errors import AuthenticationFailed
from kafka_zk.security.sasl_client import sasl_client
from kafka_zk.security.tls_settings import TlsSettings
from kafka_zk.spark_jobs.errors import AuthenticationError, FetchFailed

MAX_FRAME_BYTES = 1 << 30
NEWEST = {
    ApiKey.FETCH: 12,  # has topic names; from 13 on topics have ids
    ApiKey.METADATA: 12,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.SASL_HANDSHAKE: 1,
    ApiKey.SASL_AUTHENTICATE: 2,
}
"""The highest used versions. Brokers from 0.10.1 on support low enough versions."""
_OLDEST = {
    ApiKey.FETCH: 0,
    ApiKey.METADATA: 1,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.SASL_HANDSHAKE: 1,
    ApiKey.SASL_AUTHENTICATE: 0,
}
_SIZE = struct.Struct(">i")


class BrokerConnection:
    """A connection, whose constructor connects and reads the broker's API versions.

    Raises: OSError for network errors, ProtocolError if the peer is not a broker, FetchFailed if a broker lacks an API,
    AuthenticationError. After an error the connection is unusable. A session that will end soon is renewed before a
    request, when no other one is pending.
    """

    def __init__(
        self, host: str, port: int, *, client_id: str, timeout_ms: int, receive_buffer_bytes: int = -1,
        security: ClientSecurity = NO_SECURITY,
    ) -> None:  # fmt: skip
        self._host, self.address = host, f"{host}:{port}"
        self._client_id = client_id
        self._correlation_id = 0
        self._sent: list[tuple[ApiKey, int, int]] = []
        self._security = security
        self._log_in_at_s = math.inf
        self._socket = socket.create_connection((host, port), timeout_ms / 1000)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if receive_buffer_bytes > 0:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            if security.tls is None:
                self._versions = self._ask_versions_in_plaintext(host, port, timeout_ms / 1000)
            else:
                self._versions = self._ask_versions_over_tls(host, security.tls)
            if security.sasl is not None:
                self._log_in(security.sasl)
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def version(self, api_key: ApiKey) -> int:
        """The version to use for an API. Raises FetchFailed if there is none."""
        offered = self._versions.get(int(api_key))
        lowest, highest = offered or (0, -1)
        version = min(highest, NEWEST[api_key])
        if version < max(lowest, _OLDEST[api_key]):
            raise FetchFailed(f"the broker at {self.address} does not support any known version of {api_key.name}")
        return version

    def request(self, api_key: ApiKey, message: Any, version: int | None = None) -> Any:
        """Send a request and wait for its response."""
        spoken = self.version(api_key) if version is None else version
        self._send(api_key, spoken, bytes(codec.encode_body(message, api_key, spoken)))
        return codec.decode_response(api_key, spoken, self._receive(api_key))

    def send_fetch(self, request: FetchRequest) -> None:
        """Send a Fetch, whose response ``receive_fetch`` returns."""
        version = self.version(ApiKey.FETCH)
        self._send(ApiKey.FETCH, version, write_fetch_request(version, request))

    def receive_fetch(self) -> FetchResponse:
        """Receive the response to the oldest pending Fetch. Its records are views of memory that is not reused."""
        return read_fetch_response(self.version(ApiKey.FETCH), self._receive(ApiKey.FETCH))

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        message = codec.request(ApiKey.API_VERSIONS)()
        answer = self.request(ApiKey.API_VERSIONS, message, 0)
        if answer.error_code:
            raise ProtocolError(f"{self.address} responds to ApiVersions with {ErrorCode.of(answer.error_code).name}")
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def _ask_versions_in_plaintext(self, host: str, port: int, timeout_s: float) -> dict[int, tuple[int, int]]:
        """Read the API versions without TLS. A TLS listener responds with an alert or closes the connection; on such an
        error, check whether it expects TLS."""
        try:
            return self._ask_versions()
        except (OSError, ProtocolError) as error:
            from kafka_zk.security.tls import speaks_tls

            if speaks_tls(host, port, timeout_s):
                raise AuthenticationError(
                    f"{self.address} expects TLS: security.protocol must be SSL or SASL_SSL, not "
                    f"{self._security.protocol}"
                ) from error
            raise

    def _ask_versions_over_tls(self, host: str, settings: TlsSettings) -> dict[int, tuple[int, int]]:
        """Start TLS, and read the API versions: only then does a broker report a missing client certificate."""
        import ssl

        from kafka_zk.security.tls import client_context, closed_early, handshake_failure

        in_handshake = True
        try:
            self._socket = client_context(settings).wrap_socket(self._socket, server_hostname=host)
            in_handshake = False
            return self._ask_versions()
        except (ConnectionError, ssl.SSLEOFError) as error:
            raise ConnectionError(f"{self.address}: {closed_early(settings, in_handshake=in_handshake)}") from error
        except (ssl.SSLError, ValueError) as error:
            raise AuthenticationError(str(handshake_failure(error, self.address, settings))) from error

    def _log_in(self, settings: SaslSettings) -> None:
        self._log_in_at_s = math.inf  # the login's own requests must not start another login
        try:
            exchange = sasl_exchange(settings.mechanism, sasl_client(settings, SYSTEM_RANDOM, self._host))
            step = next(exchange)
            while True:
                message = codec.request(step.api_key)(**step.fields)
                try:
                    step = exchange.send(self.request(step.api_key, message))
                except StopIteration as done:
                    lifetime_ms: int = done.value
                    break
        except AuthenticationFailed as error:
            raise AuthenticationError(f"logging in to {self.address} failed: {error}") from error
        if lifetime_ms:
            part = SYSTEM_RANDOM.uniform(REAUTHENTICATE_FROM, REAUTHENTICATE_UNTIL)
            self._log_in_at_s = monotonic_s() + lifetime_ms / 1000 * part

    def _send(self, api_key: ApiKey, version: int, body: bytes) -> None:
        if self._security.sasl is not None and not self._sent and monotonic_s() >= self._log_in_at_s:
            self._log_in(self._security.sasl)
        self._correlation_id += 1
        header = request_header(api_key, version, self._correlation_id, self._client_id)
        self._socket.sendall(_SIZE.pack(len(header) + len(body)) + header + body)
        self._sent.append((api_key, version, self._correlation_id))

    def _receive(self, expected: ApiKey) -> memoryview:
        api_key, version, correlation_id = self._sent.pop(0)
        assert api_key == expected, "answers are taken in the order of the requests"
        (size,) = _SIZE.unpack(self._read(_SIZE.size))
        if not 0 <= size <= MAX_FRAME_BYTES:
            raise ProtocolError(f"{self.address} announces a response of {size} bytes")
        frame = self._read(size)
        if correlation_id_of(frame) != correlation_id:
            raise ProtocolError(f"{self.address} responds to a request other than {correlation_id}")
        return frame[response_body_position(frame, api_key, version) :]

    def _read(self, size: int) -> memoryview:
        # Not a bytearray: zeroing it would take a tenth of the time of a large fetch.
        view = memoryview(np.empty(size, np.uint8).data)
        filled = 0
        while filled < size:
            count = self._socket.recv_into(view[filled:])
            if not count:
                raise ConnectionError(f"{self.address} closed the connection")
            filled += count
        return view
