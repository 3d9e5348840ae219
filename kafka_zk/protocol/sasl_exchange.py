"""A client's authentication: SaslHandshake, then SaslAuthenticate until the mechanism is done. Pure.

Source: KIP-43, KIP-152, KIP-368; SaslClientAuthenticator.java@3.9.
"""

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.security.errors import SaslAuthenticationFailed, UnsupportedSaslMechanism
from kafka_zk.security.sasl_client import SaslClient

REAUTHENTICATE_FROM, REAUTHENTICATE_UNTIL = 0.85, 0.95
"""A client re-authenticates after a random share of the session's lifetime, so that clients do not do so at the same
time.
"""


class SaslStep(NamedTuple):
    """A request to send in the highest version that both sides support."""

    api_key: ApiKey
    fields: Mapping[str, Any]


def sasl_exchange(mechanism: str, client: SaslClient) -> Generator[SaslStep, codec.Message, int]:
    """Yields requests, receives their responses, and returns the session's lifetime in ms (0: unlimited).

    Raises: UnsupportedSaslMechanism, SaslAuthenticationFailed.
    """
    answer = yield SaslStep(ApiKey.SASL_HANDSHAKE, {"mechanism": mechanism})
    _check_handshake(mechanism, answer)
    message = next(client)
    while True:
        answer = yield SaslStep(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": message})
        if answer.error_code != ErrorCode.NONE:
            raise SaslAuthenticationFailed(
                f"{answer.error_message or 'the broker gave no reason'} ({ErrorCode.of(answer.error_code).name})"
            )
        try:
            message = client.send(bytes(answer.auth_bytes))
        except StopIteration:
            return int(getattr(answer, "session_lifetime_ms", 0) or 0)


def _check_handshake(mechanism: str, answer: codec.Message) -> None:
    code = answer.error_code
    if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise UnsupportedSaslMechanism(
            f"the broker does not enable sasl.mechanism={mechanism}; it enables {', '.join(answer.mechanisms)}"
        )
    if code == ErrorCode.ILLEGAL_SASL_STATE:
        raise SaslAuthenticationFailed(
            "the broker does not use SASL at this port (ILLEGAL_SASL_STATE); check the port and security.protocol"
        )
    if code != ErrorCode.NONE:
        raise SaslAuthenticationFailed(f"the broker refuses SASL: {ErrorCode.of(code).name}")
