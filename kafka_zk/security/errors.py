"""Security exceptions. No message contains a password, token or key."""


class InvalidSecurity(ValueError):
    """A security setting, or a file that it names, is invalid. The message says which one and what to do."""


class AuthenticationFailed(Exception):
    """A peer or this client could not be authenticated. Retrying with the same settings does not help."""


class SaslAuthenticationFailed(AuthenticationFailed):
    """A SASL exchange failed. A broker sends ``str(error)`` to the client and logs ``reason`` if it is set."""

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason


class RefusedForNow(SaslAuthenticationFailed):
    """A broker refuses a credential that it may accept later. It closes the connection without a response, so that
    clients retry."""


class UnsupportedSaslMechanism(AuthenticationFailed):
    """The mechanism is not enabled on the broker."""


class SslAuthenticationFailed(AuthenticationFailed):
    """The TLS handshake failed: wrong certificate, wrong host name, or a peer that does not use TLS."""
