"""The exceptions of our clients.

``retriable``: the same call may succeed later. The clients have already retried when they raise.
"""

from typing import Any

from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.security.errors import AuthenticationFailed, SaslAuthenticationFailed, UnsupportedSaslMechanism


class KafkaError(Exception):
    """Base of all errors that the clients raise. ``code``: Kafka's error code, None for local causes."""

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code

    @property
    def retriable(self) -> bool:
        """True if trying again later can help."""
        return self.code is not None and self.code.retriable


class ConfigError(KafkaError, ValueError):
    """A configuration key is unknown or its value is invalid; the message names the key and the allowed values."""


class ClientClosed(KafkaError):
    """The producer, reader or cluster client was closed."""


class NoBrokersAvailable(KafkaError):
    """None of the known addresses could be reached; the message lists them with the last cause."""

    @property
    def retriable(self) -> bool:
        return True


class AuthenticationError(KafkaError):
    """A broker rejected the client's identity, or the client rejected the broker's. Clients do not retry."""


class SaslAuthenticationError(AuthenticationError):
    """A login failed: the name, password or token is wrong."""


class UnsupportedSaslMechanismError(AuthenticationError):
    """The broker does not enable ``sasl.mechanism``; the message lists the enabled ones."""


class SslAuthenticationError(AuthenticationError):
    """A TLS handshake failed because of a certificate, a host name, or a peer without TLS."""


class KafkaTimeoutError(KafkaError):
    """An operation did not finish within its configured timeout."""

    @property
    def retriable(self) -> bool:
        return True


class BufferExhausted(KafkaTimeoutError):
    """The producer's ``buffer.memory`` is full of unacknowledged records."""


class RecordTooLargeError(KafkaError):
    """A record exceeds ``max.request.size`` or ``buffer.memory``; it was not sent."""


class BrokerError(KafkaError):
    """A broker responded with an error code; ``code`` is never None."""


class ResponseLost(BrokerError):
    """A request was sent and got no response: it may have been carried out, or it may still arrive."""


def authentication_error(error: AuthenticationFailed, address: str) -> AuthenticationError:
    """The clients' exception for a failed authentication at ``address``."""
    if isinstance(error, UnsupportedSaslMechanism):
        return UnsupportedSaslMechanismError(f"{address}: {error}", ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    if isinstance(error, SaslAuthenticationFailed):
        told = f"logging in to {address} failed: {error}"
        return SaslAuthenticationError(told, ErrorCode.SASL_AUTHENTICATION_FAILED)
    return SslAuthenticationError(str(error))


def broker_error(code: int, doing: str, message: str | None = None) -> BrokerError:
    """The error for a response's code: the action, the code's name, and the broker's message."""
    try:
        error_code = ErrorCode(code)
    except ValueError:
        error_code = ErrorCode.UNKNOWN_SERVER_ERROR
    name = error_code.name if error_code == code else f"error code {code}"
    return BrokerError(f"{doing}: {name}" + (f" ({message})" if message else ""), error_code)


def error_in(result: Any, doing: str) -> BrokerError | None:
    """The error of a response, or of one result in it, with the broker's message; None if it has none."""
    return broker_error(result.error_code, doing, result.error_message) if result.error_code else None


def raise_error_in(result: Any, doing: str) -> None:
    """Raises BrokerError if ``error_in`` finds one."""
    if (error := error_in(result, doing)) is not None:
        raise error
