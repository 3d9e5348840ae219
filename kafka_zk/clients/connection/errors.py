"""What our clients raise: one family, each with Kafka's error code where a broker (or Kafka's own client) has one.

``retriable`` says whether the same call may succeed later; the clients have retried already when they raise.
"""

from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.security.errors import AuthenticationFailed, SaslAuthenticationFailed, UnsupportedSaslMechanism


class KafkaError(Exception):
    """Base of everything that the clients raise on purpose; ``code`` is Kafka's error code, None for local causes."""

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code

    @property
    def retriable(self) -> bool:
        """True when trying again later can help."""
        return self.code is not None and self.code.retriable


class ConfigError(KafkaError, ValueError):
    """A configuration key is unknown or its value not allowed; the message names the key and what is allowed."""


class ClientClosed(KafkaError):
    """The producer, reader or cluster client was closed."""


class NoBrokersAvailable(KafkaError):
    """None of the known addresses could be reached; the message lists them with the last cause."""

    @property
    def retriable(self) -> bool:
        return True


class AuthenticationError(KafkaError):
    """A broker does not accept us, or we do not accept it. It is not retried: trying again does not help."""


class SaslAuthenticationError(AuthenticationError):
    """A login failed: a wrong name, password or token."""


class UnsupportedSaslMechanismError(AuthenticationError):
    """The broker does not enable ``sasl.mechanism``; the message lists what it enables."""


class SslAuthenticationError(AuthenticationError):
    """A TLS handshake failed: a certificate, a host name, or no TLS at the other end."""


class KafkaTimeoutError(KafkaError):
    """Something did not happen within the time that the configuration gives it."""

    @property
    def retriable(self) -> bool:
        return True


class BufferExhausted(KafkaTimeoutError):
    """The producer's ``buffer.memory`` is full of records that are not acknowledged yet."""


class RecordTooLargeError(KafkaError):
    """A record above ``max.request.size`` or ``buffer.memory``; it was not sent."""


class BrokerError(KafkaError):
    """A broker answered with an error code; ``code`` is never None."""


def authentication_error(error: AuthenticationFailed, address: str) -> AuthenticationError:
    """What the clients raise for a failure to authenticate at ``address``."""
    if isinstance(error, UnsupportedSaslMechanism):
        return UnsupportedSaslMechanismError(f"{address}: {error}", ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    if isinstance(error, SaslAuthenticationFailed):
        told = f"logging in to {address} failed: {error}"
        return SaslAuthenticationError(told, ErrorCode.SASL_AUTHENTICATION_FAILED)
    return SslAuthenticationError(str(error))


def broker_error(code: int, doing: str, message: str | None = None) -> BrokerError:
    """Return the error for a response's code: what we were ``doing``, the code's name, the broker's own words."""
    try:
        error_code = ErrorCode(code)
    except ValueError:
        error_code = ErrorCode.UNKNOWN_SERVER_ERROR
    name = error_code.name if error_code == code else f"error code {code}"
    return BrokerError(f"{doing}: {name}" + (f" ({message})" if message else ""), error_code)
