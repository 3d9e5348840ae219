"""Sends SASL frames to a broker one by one, and reports the responses and the end of the connection."""

from __future__ import annotations

import socket
import struct
from collections.abc import Generator
from types import TracebackType
from typing import Any

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import request_header, response_body_position
from tests.message_dicts import as_dict

CLOSED = "closed"
_TIMEOUT_S = 20.0
_CORRELATION_ID = 7


class SaslProbe:
    """One connection. Each method returns a comparable value, or ``CLOSED``."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), _TIMEOUT_S)

    def __enter__(self) -> SaslProbe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def frame(self, data: bytes) -> bytes | str:
        """Send a frame unchanged; returns the response's frame."""
        try:
            self._socket.sendall(struct.pack(">i", len(data)) + data)
            (size,) = struct.unpack(">i", self._read(4))
            return self._read(size)
        except ConnectionError:
            return CLOSED

    def raw(self, data: bytes) -> bytes | str:
        """Send bytes unchanged; returns the response, up to the end if the broker stops sending."""
        try:
            self._socket.sendall(data)
            received = self._socket.recv(4096)
        except ConnectionError:
            return CLOSED
        return received or CLOSED

    def unknown(self, api_key: ApiKey, version: int) -> bytes | str:
        """A request of a version that no broker knows, without a body; the response's frame."""
        return self.frame(struct.pack(">hhih", api_key, version, _CORRELATION_ID, 5) + b"probe")

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError
            data += piece
        return data

    def ask(self, api_key: ApiKey, version: int, **fields: Any) -> Any:
        """Send a request; returns the response's message."""
        body = codec.encode_body(codec.request(api_key)(**fields), api_key, version)
        data = self.frame(request_header(api_key, version, _CORRELATION_ID, "probe") + bytes(body))
        if isinstance(data, str):
            return data
        frame = memoryview(data)
        return codec.decode_response(api_key, version, frame[response_body_position(frame, api_key, version) :])

    def versions(self, version: int = 0) -> Any:
        answer = self.ask(ApiKey.API_VERSIONS, version)
        return answer if answer == CLOSED else answer.error_code

    def named_versions(self, name: str, version: str = "1.0") -> Any:
        """ApiVersions of a client with this name."""
        answer = self.ask(ApiKey.API_VERSIONS, 3, client_software_name=name, client_software_version=version)
        return answer if answer == CLOSED else answer.error_code

    def answered(self, api_key: ApiKey, version: int, **fields: Any) -> Any:
        """The response as a dictionary."""
        answer = self.ask(api_key, version, **fields)
        return answer if answer == CLOSED else as_dict(answer)

    def groups(self) -> Any:
        """Send a request that does not belong to a login."""
        answer = self.ask(ApiKey.LIST_GROUPS, 0)
        return answer if answer == CLOSED else answer.error_code

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        answer = self.ask(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)
        return answer if answer == CLOSED else (answer.error_code, list(answer.mechanisms))

    def authenticate(self, message: bytes, version: int = 2) -> Any:
        """Returns code, text, bytes and the session's lifetime in seconds; a token's lifetime, which always differs, is
        in minutes.
        """
        answer = self.ask(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=message)
        if answer == CLOSED:
            return CLOSED
        lifetime_s = round((getattr(answer, "session_lifetime_ms", 0) or 0) / 1000)
        if lifetime_s > 60:
            lifetime_s = round(lifetime_s / 60) * 60
        return answer.error_code, answer.error_message, bytes(answer.auth_bytes), lifetime_s

    def exchange(self, mechanism: str, client: Generator[bytes, bytes, None]) -> Any:
        """Carry out a handshake and all messages of a client; returns the last response, without its bytes."""
        agreed = self.handshake(mechanism)
        if agreed == CLOSED or agreed[0]:
            return agreed
        message = next(client)
        while True:
            answer = self.authenticate(message)
            if answer == CLOSED or answer[0]:
                return answer
            try:
                message = client.send(answer[2])
            except StopIteration:
                return answer[0], answer[1], b"", answer[3]
