"""TLS settings. Nothing here loads OpenSSL."""

from dataclasses import dataclass

from kafka_zk.security.password import Password


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key and its certificate chain, own certificate first, as PEM. ``key_password``: None if the key is not
    encrypted."""

    private_key: Password
    certificate_chain: str
    key_password: Password | None = None


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How one side of a TLS connection authenticates itself and its peer.

    Attributes:
        authorities: trusted certificates, PEM; None: the system's.
        identity: sent if the peer requests it.
        verify: a client verifies the broker's certificate.
        check_host_name: the certificate must name the broker's host; ignored unless ``verify``.
        protocols, suites: Java's names; empty: TLS 1.2 and 1.3, and OpenSSL's default suites.
    """

    authorities: str | None = None
    identity: Identity | None = None
    verify: bool = True
    check_host_name: bool = True
    protocols: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
