"""One connection's SASL logins, between its requests and the pure core (``sasl_server``).

As in Kafka, a failure response is delayed (``connection.failed.authentication.delay.ms``), so that passwords cannot be
tried quickly. Then the connection is closed. A session ends after ``connections.max.reauth.ms``, or when the client's
token expires. Then only reauthentication is allowed (KIP-368).
Source: SaslServerAuthenticator.java, KafkaChannel.java, Processor.scala@3.9.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from kafka_zk.base.clock import Clock
from kafka_zk.base.threads import RunInThread
from kafka_zk.broker.security.login_stats import LoginStats
from kafka_zk.network.connection_settings import MOST_BYTES_BEFORE_LOGIN, Dispatch, Handshake, HandshakeStep
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.error_response import error_response
from kafka_zk.protocol.errors import ErrorCode, ProtocolError
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.primitives import Buffer
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.security.sasl_server import SaslReply, SaslServer, SaslState, UnexpectedRequest

HandshakeResponse = codec.response(ApiKey.SASL_HANDSHAKE)
AuthenticateResponse = codec.response(ApiKey.SASL_AUTHENTICATE)

MIN_REAUTHENTICATION_INTERVAL_S = 1.0
MOST_BYTES_ANSWERED = 1024
"""A larger request that interrupts a login gets no response, because parsing and responding take 2 us a byte, during
which all connections wait."""

_BARE_TOKENS_UNTIL = 0  # SaslHandshake: up to this version, messages have no request header
_WITHOUT_LIFETIME_UNTIL = 0  # SaslAuthenticate: up to this version, there is no session lifetime
_CORRELATION_ID_BYTES = 4  # the whole header in ApiVersions responses
_NO_ERROR = bytes(2)
_log = Logger()

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SaslHandshakes:
    """Settings that the handshakes of one listener share.

    Args:
        dispatch: handles ApiVersions.
        failed_delay_s: delay of a failure response.
        stats: counts the logins.
        run_in_thread: for steps that may block.
    """

    clock: Clock
    dispatch: Dispatch
    failed_delay_s: float
    stats: LoginStats
    run_in_thread: RunInThread


class SaslHandshake(Handshake):
    def __init__(self, server: SaslServer, listener: SaslHandshakes) -> None:
        self._server = server
        self._clock = listener.clock
        self._dispatch = listener.dispatch
        self._failed_delay_s = listener.failed_delay_s
        self._stats = listener.stats
        self._run_in_thread = listener.run_in_thread
        self._begun_s: float | None = None  # start of the reauthentication; None for the first login
        self._tells_lifetime = False
        self.takes_bare_frames = False
        self.max_frame_size_bytes = MOST_BYTES_BEFORE_LOGIN

    def request(
        self, context: RequestContext, header: RequestHeader, body: memoryview
    ) -> Coroutine[Any, Any, HandshakeStep]:
        self._check_session(header)
        self._check_size(body)
        is_agreed = self._server.state is SaslState.AUTHENTICATING
        if header.api_key == ApiKey.API_VERSIONS and not is_agreed:
            return self._api_versions(context, header, body)
        if header.api_key == ApiKey.SASL_HANDSHAKE and not is_agreed:
            return self._handshake(context, header, body)
        if header.api_key == ApiKey.SASL_AUTHENTICATE:
            return self._authenticate(context, header, body)
        if not is_agreed:
            raise ProtocolError(f"API {header.api_key} before the login")
        return self._interrupted(context, header, body)

    async def unknown_version(self, context: RequestContext, header: RequestHeader, versions: bytes) -> HandshakeStep:
        self._check_session(header)
        if self._server.state is SaslState.AUTHENTICATING:
            return await self._interrupted(context, header._replace(api_version=0), memoryview(b""))
        self._expected(self._server.api_versions)
        return HandshakeStep([versions])

    def begins_again(self, header: RequestHeader) -> bool:
        if header.api_key != ApiKey.SASL_HANDSHAKE:
            return False
        return self._begun_s is None or self._clock.seconds() - self._begun_s >= MIN_REAUTHENTICATION_INTERVAL_S

    async def bare_frame(self, context: RequestContext, frame: memoryview) -> HandshakeStep:
        self._check_size(frame)
        reply = await self._reply(frame)
        if reply.failure is not None:
            await self._hold_back(context, reply.reason or reply.failure)
            return HandshakeStep(None, is_refused=True)  # responses of this version cannot contain an error
        return self._next(context, [reply.challenge], self._lifetime_ms())

    def _check_session(self, header: RequestHeader) -> None:
        """Check that the session has not ended. After its end, only another login is allowed."""
        if self._server.state is SaslState.DONE and not self.begins_again(header):
            self._stats.expired += 1
            raise ProtocolError("its session has ended, and the client does not log in again")

    def _check_size(self, message: Buffer) -> None:
        """Limit the size of messages during reauthentication, when the decoder allows larger frames."""
        if len(message) > self.max_frame_size_bytes:
            raise ProtocolError(f"a login's message has {len(message)} bytes; {self.max_frame_size_bytes} are allowed")

    async def _api_versions(self, context: RequestContext, header: RequestHeader, body: memoryview) -> HandshakeStep:
        self._expected(self._server.api_versions)
        response = await self._dispatch(context, header, body)
        assert response is not None, "ApiVersions is always answered"
        frame = b"".join(cast(list[bytes], response[:2]))
        if frame[_CORRELATION_ID_BYTES:][:2] == _NO_ERROR:
            self._server.versions_sent()
        return HandshakeStep(response)

    async def _handshake(self, context: RequestContext, header: RequestHeader, body: memoryview) -> HandshakeStep:
        if self._server.state is SaslState.DONE:
            self._server = self._server.again()
            self._begun_s = self._clock.seconds()
        wanted = codec.decode_request(header.api_key, header.api_version, body).mechanism
        is_enabled = self._expected(lambda: self._server.handshake(wanted))
        code = ErrorCode.NONE if is_enabled else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        answer = HandshakeResponse(error_code=code, mechanisms=list(self._server.mechanisms))
        if not is_enabled:
            await self._hold_back(context, f"the client asks for the mechanism {wanted[:40]!r}, which is not enabled")
        self.takes_bare_frames = is_enabled and header.api_version <= _BARE_TOKENS_UNTIL
        return HandshakeStep([_encoded(header, answer)], is_refused=not is_enabled)

    async def _authenticate(self, context: RequestContext, header: RequestHeader, body: memoryview) -> HandshakeStep:
        message = codec.decode_request(header.api_key, header.api_version, body).auth_bytes
        self._tells_lifetime |= header.api_version > _WITHOUT_LIFETIME_UNTIL
        reply = await self._reply(message)
        if reply.failure is not None:
            await self._hold_back(context, reply.reason or reply.failure)
            if not reply.is_told:
                return HandshakeStep(None, is_refused=True)
            answer = AuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=reply.failure
            )
            return HandshakeStep([_encoded(header, answer)], is_refused=True)
        lifetime_ms = self._lifetime_ms()
        answer = AuthenticateResponse(auth_bytes=reply.challenge, session_lifetime_ms=lifetime_ms or 0)
        return self._next(context, [_encoded(header, answer)], lifetime_ms)

    async def _interrupted(self, context: RequestContext, header: RequestHeader, body: memoryview) -> HandshakeStep:
        """Respond ILLEGAL_SASL_STATE: a mechanism is agreed, and the request is not part of the login.

        A large request is not parsed, and gets no response.
        """
        failure = f"Unexpected Kafka request of type {ApiKey(header.api_key).name} during SASL authentication."
        answer = None
        if len(body) <= MOST_BYTES_ANSWERED:
            request = codec.decode_request(header.api_key, header.api_version, body)
            answer = error_response(header.api_key, header.api_version, request, ErrorCode.ILLEGAL_SASL_STATE, failure)
        self._server.interrupt()
        await self._hold_back(context, failure)
        return HandshakeStep(None if answer is None else [_encoded(header, answer)], is_refused=True)

    async def _reply(self, message: Buffer) -> SaslReply:
        received = bytes(message)
        if not self._server.may_wait:
            return self._expected(lambda: self._server.authenticate(received))
        return await self._run_in_thread(lambda: self._expected(lambda: self._server.authenticate(received)))

    def _lifetime_ms(self) -> int | None:
        return self._server.lifetime_ms() if self._server.state is SaslState.DONE else None

    def _next(self, context: RequestContext, response: list[Part], lifetime_ms: int | None) -> HandshakeStep:
        login = self._server.login
        if login is None:
            return HandshakeStep(response)
        self.takes_bare_frames = False
        if self._begun_s is not None:
            self._stats.reauthenticated((self._clock.seconds() - self._begun_s) * 1000)
        else:
            self._stats.logged_in(can_reauthenticate=self._tells_lifetime)
        context = context._replace(principal=f"User:{login.user}", token_authenticated=login.is_token)
        return HandshakeStep(response, context, lifetime_ms=lifetime_ms)

    @staticmethod
    def _expected(step: Callable[[], T]) -> T:
        try:
            return step()
        except UnexpectedRequest as error:
            raise ProtocolError(str(error)) from None

    async def _hold_back(self, context: RequestContext, failure: str) -> None:
        self._stats.login_failed(again=self._begun_s is not None)
        _log.info("Failed authentication with {peer}: {reason}", peer=context.peer_host, reason=failure)
        waited: Deferred[None] = Deferred()
        self._clock.callLater(self._failed_delay_s, waited.callback, None)
        await waited


def _encoded(header: RequestHeader, answer: Any) -> Part:
    return codec.encode_response(header.api_key, header.api_version, header.correlation_id, answer)
