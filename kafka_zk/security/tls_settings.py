"""What a TLS connection is made with. Values only: nothing here loads OpenSSL."""

from dataclasses import dataclass

from kafka_zk.security.password import Password


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key and its certificates, the key's own first, as PEM; ``key_password`` if the key is encrypted."""

    private_key: Password
    certificate_chain: str
    key_password: Password | None = None


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How one side of a TLS connection proves itself and what it believes.

    ``authorities``: PEM certificates; None: those of the system. ``identity``: our own key and certificates, for peers
    that ask for them. ``verify``: a client checks the broker's certificate. ``check_host_name``: and that it is for
    the host that it connects to. ``protocols``, ``suites``: by Java's names; empty: TLS 1.2 and 1.3, OpenSSL's
    suites.
    """

    authorities: str | None = None
    identity: Identity | None = None
    verify: bool = True
    check_host_name: bool = True
    protocols: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
