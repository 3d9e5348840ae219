"""Errors of settings and logins. Their messages contain no password, token or key."""


class InvalidSecurity(ValueError):
    """A security setting, or a file that it names, is invalid. The message says which one, and what to do."""


class AuthenticationFailed(Exception):
    """A peer or this client was not authenticated; retrying unchanged does not help."""


class SaslAuthenticationFailed(AuthenticationFailed):
    """Brokers send ``str(error)`` to the client, and log ``reason`` if it is set."""

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason


class RefusedForNow(SaslAuthenticationFailed):
    """The login may be accepted later: the connection is closed without a response, so that clients retry."""


class UnsupportedSaslMechanism(AuthenticationFailed):
    """The client's SASL mechanism is not enabled on the broker."""


class SslAuthenticationFailed(AuthenticationFailed):
    """A TLS handshake failed: wrong certificate, wrong host name, or a peer without TLS."""
