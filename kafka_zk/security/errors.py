"""What security raises. No message contains a password, a token or a key."""


class InvalidSecurity(ValueError):
    """A setting of security, or a file that it names, cannot be used; the message says which and what to do."""


class AuthenticationFailed(Exception):
    """A peer was not accepted, or did not accept us; trying again with the same settings does not help."""


class SaslAuthenticationFailed(AuthenticationFailed):
    """A SASL exchange failed. A broker sends ``str(error)`` to the client; ``reason``: what its log has instead."""

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason


class UnsupportedSaslMechanism(AuthenticationFailed):
    """The broker does not enable the mechanism."""


class SslAuthenticationFailed(AuthenticationFailed):
    """The TLS handshake failed: a certificate, a host name, or no TLS at the other end."""
