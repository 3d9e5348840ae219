"""A ZooKeeper client's identity, transport security and ACLs: values and rules.

By default, znodes are open. With ``zookeeper.set.acl``, only the creator may change them, and everyone may read them,
unless they may contain secrets. ``/consumers`` stays open, because members have identities of their own, or none.
Source: ZkData.scala@3.9.
"""

import enum
from dataclasses import dataclass
from pathlib import Path

_SENSITIVE = ("/config/users", "/config/brokers", "/delegation_token/tokens", "/kafka-zk/secret")
_ALWAYS_OPEN = "/consumers"


class Acl(enum.Enum):
    """The ACLs that a new znode can get."""

    OPEN = "world:anyone may do all"
    CREATOR = "the creator may do all"
    CREATOR_AND_READERS = "the creator may do all, all others may read"


@dataclass(frozen=True, slots=True)
class Credentials:
    username: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.username!r}, ...)"


@dataclass(frozen=True, slots=True)
class Tls:
    """All files are PEM.

    ``truststore``: authorities (None: the system's). ``keystore``: key and certificate chain, for servers that require
    a client certificate. Without ``protocols`` or ``cipher_suites``, OpenSSL's defaults apply, from TLS 1.2 on.
    """

    truststore: Path | None = None
    keystore: Path | None = None
    keystore_password: str | None = None
    check_hostname: bool = True
    protocols: tuple[str, ...] = ()
    cipher_suites: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Security:
    """TLS, SASL DIGEST-MD5 and ``digest`` credentials, each optional.

    A session has every identity that it proves. With ``set_acl``, the ACLs of its znodes name all of them.
    """

    tls: Tls | None = None
    sasl: Credentials | None = None
    digest: Credentials | None = None
    set_acl: bool = False

    @property
    def has_identity(self) -> bool:
        """True if there is an identity for ACLs, from SASL, digest or a keystore's certificate."""
        return bool(self.sasl or self.digest or (self.tls and self.tls.keystore))

    def acl(self, path: str) -> Acl:
        """The ACL of a new znode; ``path`` is relative to the chroot."""
        if not self.set_acl or _is_below(path, _ALWAYS_OPEN):
            return Acl.OPEN
        return Acl.CREATOR if any(_is_below(path, root) for root in _SENSITIVE) else Acl.CREATOR_AND_READERS


NO_SECURITY = Security()


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")
