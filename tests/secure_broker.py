"""A minimal broker with TLS and SASL, in a thread, for tests of clients.

It responds to ApiVersions, SaslHandshake, SaslAuthenticate (PLAIN and SCRAM, by the server sides in
``kafka_zk.security``), and Metadata, in which it is the only broker; other requests get an empty response without an
error. Like Apache Kafka, it accepts only ApiVersions and login requests before and during a login.
"""

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestHeader, parse_request_header
from kafka_zk.security import plain, scram
from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.unsecured_jws import InvalidToken, claims_of
from kafka_zk.testing.certificates import CertificateAuthority

SALT = b"salt of sixteen."
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
MAX_FRAME_BYTES = 104857600
REFUSED_TOKEN = b'{"status":"invalid_token"}'
_SIZE = struct.Struct(">i")


@dataclass(frozen=True)
class Files:
    """PEM files: a CA, the broker's key and certificates, a client's, and another CA that signed nothing here."""

    authority: Path
    broker: Path
    client: Path
    other_authority: Path


def make_files(folder: Path, host: str = "127.0.0.1") -> Files:
    """Certificates for one broker at ``host`` and one client."""
    authority = CertificateAuthority("test CA")
    other = CertificateAuthority("another CA")
    return Files(
        authority.write_truststore(folder / "authority.pem"),
        authority.write_keystore(folder / "broker.pem", "broker", [host]),
        authority.write_keystore(folder / "client.pem", "client"),
        other.write_truststore(folder / "other.pem"),
    )


def server_context(files: Files, *, asks_for_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.broker)
    if asks_for_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(files.authority)
    return context


@dataclass
class SecureBroker:
    """``users``: names and passwords. ``lifetime_ms``: of a session, 0 for no limit. ``principals``: the users that
    logged in."""

    context: ssl.SSLContext | None = None
    has_sasl: bool = True
    mechanisms: tuple[str, ...] = MECHANISMS
    users: dict[str, str] = field(default_factory=lambda: {"alice": "alice-secret"})
    lifetime_ms: int = 0
    principals: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    peers: list[str] = field(default_factory=list)
    port: int = 0

    @contextlib.contextmanager
    def running(self) -> Iterator["SecureBroker"]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            yield self
            listener.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            if self.context is not None:
                connection = self.context.wrap_socket(connection, server_side=True)
                certificate = connection.getpeercert()
                self.peers.append(str(certificate and certificate["subject"]))
            with connection:
                _Session(self, connection).run()


class _Session:
    def __init__(self, broker: SecureBroker, connection: socket.socket) -> None:
        self._broker = broker
        self._connection = connection
        self._mechanism = ""  # for the login in progress
        self._scram: scram.ScramServer | None = None
        self._refused_token = False
        self._user = ""  # the user whose password was checked
        self._is_open = not broker.has_sasl

    def run(self) -> None:
        while True:
            (size,) = _SIZE.unpack(self._read(4))
            if not 0 <= size <= MAX_FRAME_BYTES:
                return
            frame = self._read(size)
            header, position = parse_request_header(memoryview(frame))
            body = memoryview(frame)[position:]
            is_login = header.api_key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
            if not is_login and header.api_key != ApiKey.API_VERSIONS and (not self._is_open or self._mechanism):
                self._broker.violations.append(ApiKey(header.api_key).name)
                return
            message = self._answer(header, codec.decode_request(header.api_key, header.api_version, body))
            data = codec.encode_response(header.api_key, header.api_version, header.correlation_id, message)
            self._connection.sendall(_SIZE.pack(len(data)) + data)
            if is_login and message.error_code:
                return

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._connection.recv(min(count - len(data), 1 << 20))
            if not piece:
                raise ConnectionError
            data += piece
        return data

    def _answer(self, header: RequestHeader, request: Any) -> Any:
        response = codec.response(header.api_key)
        if header.api_key == ApiKey.API_VERSIONS:
            return response(error_code=0, api_keys=[
                response.ApiVersion(api_key=int(key), min_version=low, max_version=high)
                for key, (low, high) in BROKER_VERSIONS.items()
            ])  # fmt: skip
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            return self._handshake(request, response)
        if header.api_key == ApiKey.SASL_AUTHENTICATE:
            return self._authenticate(request, response)
        if header.api_key == ApiKey.METADATA:
            me = response.MetadataResponseBroker(node_id=0, host="127.0.0.1", port=self._broker.port, rack=None)
            return response(brokers=[me], cluster_id="c", controller_id=0, topics=[])
        return response()

    def _handshake(self, request: Any, response: Any) -> Any:
        offered = list(self._broker.mechanisms)
        if not self._broker.has_sasl:
            return response(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
        if request.mechanism not in offered:
            return response(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
        self._mechanism, self._scram = request.mechanism, None
        return response(error_code=0, mechanisms=offered)

    def _authenticate(self, request: Any, response: Any) -> Any:
        try:
            answer, principal = self._step(bytes(request.auth_bytes))
        except SaslAuthenticationFailed as error:
            return response(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error), auth_bytes=b"",
                            session_lifetime_ms=0)  # fmt: skip
        if principal is not None:
            self._is_open, self._mechanism = True, ""
            self._broker.principals.append(principal)
        lifetime_ms = self._broker.lifetime_ms if principal is not None else 0
        return response(error_code=0, error_message="", auth_bytes=answer, session_lifetime_ms=lifetime_ms)

    def _step(self, message: bytes) -> tuple[bytes, str | None]:
        users = self._broker.users
        if self._mechanism == "PLAIN":
            return b"", plain.plain_user(message, lambda user, sent: plain.is_same_password(users.get(user), sent))
        if self._mechanism == "OAUTHBEARER":
            if self._refused_token:
                raise SaslAuthenticationFailed(REFUSED_TOKEN.decode())
            user = _user_of_token(message)
            self._refused_token = user is None
            return REFUSED_TOKEN if user is None else b"", user
        if self._scram is None:
            start = scram.client_first(message)
            self._user = start.username
            known = self._credential(start.username)
            self._scram = scram.ScramServer(self._mechanism, start, known, "server-nonce")
            return self._scram.first_message, None
        return self._scram.final_message(message), self._user

    def _credential(self, user: str) -> scram.ScramCredential:
        password = self._broker.users.get(user)
        if password is None:
            return scram.invented_credential(self._mechanism, user, b"cluster")
        salted = scram.salted_password(self._mechanism, password, SALT, 4096)
        return scram.credential(self._mechanism, salted, SALT, 4096)


def _user_of_token(message: bytes) -> str | None:
    """The user in a client's OAUTHBEARER message; None if its token is invalid or has expired."""
    _, bearer, *_ = message.decode().split("\x01")
    try:
        claims = claims_of(bearer.removeprefix("auth=Bearer "))
    except InvalidToken:
        return None
    return str(claims["sub"]) if claims["exp"] > time.time() else None
