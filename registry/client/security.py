"""Who a ZooKeeper client is, how its connection is protected, and which ACL its znodes get. Values and rules only.

ACLs follow Kafka (ZkData.scala@3.9, ``zookeeper.set.acl``): without it everything is open. With it the creator may do
all and everybody may read, except that nobody else reads what can hold secrets; ``/consumers`` stays open as a whole,
since the members of groups have identities of their own, or none. Tests: ``tests/registry/client/test_security.py``.
"""

import enum
from dataclasses import dataclass
from pathlib import Path

_SENSITIVE = ("/config/users", "/config/brokers", "/delegation_token/tokens", "/kafka-zk/secret")
_ALWAYS_OPEN = "/consumers"


class Acl(enum.Enum):
    """Which of three ACLs a znode gets when it is created."""

    OPEN = "world:anyone may do all"
    CREATOR = "the creator may do all"
    CREATOR_AND_READERS = "the creator may do all, everybody may read"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user name and a password."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.username!r}, ...)"


@dataclass(frozen=True, slots=True)
class Tls:
    """A connection over TLS. All files are PEM.

    ``truststore`` has the authorities (None: those of the system); ``keystore`` the client's own key and certificate
    chain, for servers that ask for one. ``protocols`` and ``cipher_suites`` empty: what OpenSSL allows, from TLS 1.2.
    """

    truststore: Path | None = None
    keystore: Path | None = None
    keystore_password: str | None = None
    check_hostname: bool = True
    protocols: tuple[str, ...] = ()
    cipher_suites: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Security:
    """What a client brings: TLS, SASL DIGEST-MD5, an identity of the scheme ``digest``; any of them, or none.

    A session has every identity that was proved. ``set_acl`` protects the znodes that it creates with all of them.
    """

    tls: Tls | None = None
    sasl: Credentials | None = None
    digest: Credentials | None = None
    set_acl: bool = False

    @property
    def has_identity(self) -> bool:
        """Whether a session can own what it creates: by SASL, digest or the certificate of its keystore."""
        return bool(self.sasl or self.digest or (self.tls and self.tls.keystore))

    def acl(self, path: str) -> Acl:
        """The ACL of a znode to be created; ``path`` is relative to the chroot."""
        if not self.set_acl or _is_below(path, _ALWAYS_OPEN):
            return Acl.OPEN
        return Acl.CREATOR if any(_is_below(path, root) for root in _SENSITIVE) else Acl.CREATOR_AND_READERS


NO_SECURITY = Security()


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")
