"""One blocking connection to a broker, for executors: a plain socket, no reactor, no thread.

Requests may be sent ahead: answers come in the order of the requests, one ``receive`` for each ``send``.
"""

import socket
import struct
from typing import Any

import numpy as np

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode, ProtocolError
from kafka_zk.protocol.fetch import FetchResponse, read_fetch_response
from kafka_zk.protocol.fetch_request import FetchRequest, write_fetch_request
from kafka_zk.protocol.request import correlation_id_of, request_header, response_body_position
from kafka_zk.spark_jobs.errors import FetchFailed

MAX_FRAME_BYTES = 1 << 30
NEWEST = {
    ApiKey.FETCH: 12,  # topic names; from 13 on topics have ids
    ApiKey.METADATA: 12,
    ApiKey.LIST_OFFSETS: 7,
}
"""The highest version that is used of each API; brokers from 0.10.1 on have low enough ones."""
_OLDEST = {ApiKey.FETCH: 0, ApiKey.METADATA: 1, ApiKey.LIST_OFFSETS: 1}
_SIZE = struct.Struct(">i")


class BrokerConnection:
    """Connected, and told the broker's API versions, when made.

    Raises: OSError for whatever the network does, ProtocolError when the peer is no broker, FetchFailed for a broker
    that lacks an API. After any error the connection is of no use any more.
    """

    def __init__(
        self, host: str, port: int, *, client_id: str, timeout_ms: int, receive_buffer_bytes: int = -1
    ) -> None:
        self.address = f"{host}:{port}"
        self._client_id = client_id
        self._correlation_id = 0
        self._sent: list[tuple[ApiKey, int, int]] = []
        self._socket = socket.create_connection((host, port), timeout_ms / 1000)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if receive_buffer_bytes > 0:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            self._versions = self._ask_versions()
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def version(self, api_key: ApiKey) -> int:
        """The version in which this API is spoken. Raises: FetchFailed."""
        offered = self._versions.get(int(api_key))
        lowest, highest = offered or (0, -1)
        version = min(highest, NEWEST[api_key])
        if version < max(lowest, _OLDEST[api_key]):
            raise FetchFailed(f"the broker at {self.address} does not speak {api_key.name} in a known version")
        return version

    def request(self, api_key: ApiKey, message: Any, version: int | None = None) -> Any:
        """Send one message of the codec and wait for its answer."""
        spoken = self.version(api_key) if version is None else version
        self._send(api_key, spoken, bytes(codec.encode_body(message, api_key, spoken)))
        return codec.decode_response(api_key, spoken, self._receive(api_key))

    def send_fetch(self, request: FetchRequest) -> None:
        """Send a Fetch without waiting; ``receive_fetch`` gives its answer."""
        version = self.version(ApiKey.FETCH)
        self._send(ApiKey.FETCH, version, write_fetch_request(version, request))

    def receive_fetch(self) -> FetchResponse:
        """The answer to the oldest Fetch that was sent; its records are views of memory that nobody else uses."""
        return read_fetch_response(self.version(ApiKey.FETCH), self._receive(ApiKey.FETCH))

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        message = codec.request(ApiKey.API_VERSIONS)()
        answer = self.request(ApiKey.API_VERSIONS, message, 0)
        if answer.error_code:
            raise ProtocolError(f"{self.address} answers ApiVersions with {ErrorCode.of(answer.error_code).name}")
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def _send(self, api_key: ApiKey, version: int, body: bytes) -> None:
        self._correlation_id += 1
        header = request_header(api_key, version, self._correlation_id, self._client_id)
        self._socket.sendall(_SIZE.pack(len(header) + len(body)) + header + body)
        self._sent.append((api_key, version, self._correlation_id))

    def _receive(self, expected: ApiKey) -> memoryview:
        api_key, version, correlation_id = self._sent.pop(0)
        assert api_key == expected, "answers are taken in the order of the requests"
        (size,) = _SIZE.unpack(self._read(_SIZE.size))
        if not 0 <= size <= MAX_FRAME_BYTES:
            raise ProtocolError(f"{self.address} announces an answer of {size} bytes")
        frame = self._read(size)
        if correlation_id_of(frame) != correlation_id:
            raise ProtocolError(f"{self.address} gives an answer to another request than {correlation_id}")
        return frame[response_body_position(frame, api_key, version) :]

    def _read(self, size: int) -> memoryview:
        # Not a bytearray, which would be filled with zeros first: that is a tenth of the time of a big fetch.
        view = memoryview(np.empty(size, np.uint8).data)
        filled = 0
        while filled < size:
            count = self._socket.recv_into(view[filled:])
            if not count:
                raise ConnectionError(f"{self.address} closed the connection")
            filled += count
        return view
