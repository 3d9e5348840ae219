"""SASL_SSL on all listeners of a local cluster, with its own authority and users.

    DIR/security/              only its owner can enter it; every file in it has mode 0600
        authority.pem          the authority's private key and certificate
        ca.pem                 its certificate, with which clients verify brokers
        broker-0.pem …         the private key and certificates of each broker
        passwords.json         the users' passwords
        client.properties      for Java's clients and tools, and for kafka-zk: the user "client"
        admin.properties       the same for the user "admin", with which brokers log in to each other
        librdkafka.properties  for kcat -F and other librdkafka clients: the user "client"

Existing files are used again. A start renews certificates that expire soon; the authority keeps its key, so clients
continue to trust it. Properties files are written at every start.
"""

import contextlib
import datetime
import json
import os
import re
import secrets
import string
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.embedded.ports import LOCALHOST
from kafka_zk.embedded.private_files import private_folder, write_private
from kafka_zk.embedded.properties_file import properties_text
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.registry.znodes.config import sanitize
from kafka_zk.security import scram
from kafka_zk.security.client_keys import client_security
from kafka_zk.security.client_security import ClientSecurity
from kafka_zk.security.password import Password

if TYPE_CHECKING:
    from kafka_zk.embedded.certificates import CertificateAuthority

FOLDER = "security"
PROTOCOL = "SASL_SSL"
MECHANISM = "SCRAM-SHA-512"
ADMIN, CLIENT = "admin", "client"
USERS = (ADMIN, CLIENT)
HOSTS = ("localhost", LOCALHOST)
CLIENT_PROPERTIES, LIBRDKAFKA_PROPERTIES = f"{CLIENT}.properties", "librdkafka.properties"
RENEWED_BEFORE = datetime.timedelta(days=60)
"""Certificates are renewed twice as early as a broker warns about their expiry, so restarted clusters never warn."""

_AUTHORITY, _TRUSTSTORE, _PASSWORDS = "authority.pem", "ca.pem", "passwords.json"
_LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_NAME, _PASSWORD = re.compile(r"[A-Za-z0-9._-]{1,100}"), re.compile(r"[A-Za-z0-9]{1,100}")
_PASSWORD_CHARACTERS = string.ascii_letters + string.digits
_PASSWORD_LENGTH = 32
_SALT_BITS = scram.NONCE_BITS


class ClusterSecurity:
    """Accesses only files in ``folder``."""

    def __init__(self, folder: Path, authority: "CertificateAuthority", passwords: Mapping[str, Password]) -> None:
        self.folder = folder
        self._authority = authority
        self._passwords = dict(passwords)

    @classmethod
    def prepared(cls, folder: Path) -> Self:
        """Reads existing files, creates missing ones. Raises: EmbeddedError, OSError."""
        try:
            from kafka_zk.embedded.certificates import CertificateAuthority
        except ImportError as error:
            raise EmbeddedError(
                f"a secured cluster needs the package {error.name}: pip install 'kafka-zk[security]'"
            ) from None
        private_folder(folder)
        path = folder / _AUTHORITY
        try:
            authority = CertificateAuthority.read(path) if path.exists() else CertificateAuthority("kafka-zk authority")
        except ValueError as error:
            raise EmbeddedError(f"{path} cannot be used ({error}); remove it to create a new authority") from None
        authority.write(path)
        authority.write_truststore(folder / _TRUSTSTORE)
        return cls(folder, authority, _passwords(folder / _PASSWORDS))

    def add_user(self, name: str) -> None:
        """The user can log in after ``write_users``. An existing user keeps the password.

        Raises: EmbeddedError for a name with characters other than letters, digits, ``.``, ``_`` and ``-``; OSError.
        """
        if not _NAME.fullmatch(name):
            raise EmbeddedError(
                f"{name!r} is not a valid user name: only letters, digits, '.', '_' and '-' are allowed"
            )
        if name not in self._passwords:
            self._passwords[name] = Password(_new_password())
            _write_passwords(self.folder / _PASSWORDS, self._passwords)

    @property
    def truststore(self) -> Path:
        return self.folder / _TRUSTSTORE

    @property
    def client_file(self) -> Path:
        """The properties file for Java's clients and tools, and for kafka-zk."""
        return self.folder / CLIENT_PROPERTIES

    @property
    def librdkafka_file(self) -> Path:
        return self.folder / LIBRDKAFKA_PROPERTIES

    def properties(self, user: str = CLIENT) -> dict[str, str]:
        """Kafka's keys for a client that logs in as "client", "admin" or an added user, including the password."""
        return {
            "security.protocol": PROTOCOL,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.truststore),
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": self._login(user),
        }

    def librdkafka_properties(self, user: str = CLIENT) -> dict[str, Any]:
        return {
            "security.protocol": PROTOCOL,
            "ssl.ca.location": str(self.truststore),
            "sasl.mechanisms": MECHANISM,
            "sasl.username": user,
            "sasl.password": self._passwords[user].value,
        }

    def login(self, user: str = ADMIN) -> ClientSecurity:
        """The settings for kafka-zk's clients; by default the brokers' login. Raises InvalidSecurity."""
        return client_security(self.properties(user))

    def write_client_files(self, bootstrap: str) -> None:
        where = {"bootstrap.servers": bootstrap}
        for user in USERS:
            write_private(self.folder / f"{user}.properties", properties_text({**where, **self.properties(user)}))
        lines = [f"{key}={value}\n" for key, value in {**where, **self.librdkafka_properties()}.items()]
        write_private(self.folder / LIBRDKAFKA_PROPERTIES, "".join(lines))  # librdkafka supports no escapes

    def broker_properties(
        self, broker_id: int, listeners: Iterable[str] = (PROTOCOL,), hosts: Sequence[str] = HOSTS
    ) -> dict[str, str]:
        """A broker's properties. The first listener is for brokers.

        Creates a key and certificate for ``hosts``, unless there is one that does not expire soon.
        """
        keystore = self.folder / f"broker-{broker_id}.pem"
        if not self._authority.vouches_for(keystore, hosts, RENEWED_BEFORE):
            self._authority.write_keystore(keystore, f"broker-{broker_id}", hosts)
        names = list(listeners)
        login = {
            f"listener.name.{name.lower()}.{MECHANISM.lower()}.sasl.jaas.config": self._login(ADMIN) for name in names
        }
        return {
            "listener.security.protocol.map": ",".join(f"{name}:{PROTOCOL}" for name in names),
            "inter.broker.listener.name": names[0],
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.truststore),
            **login,
        }

    async def write_users(self, client: RegistryClient) -> None:
        """Store the users' credentials in ZooKeeper, unless they already match the passwords.

        Raises: RegistryError.
        """
        configs = ConfigRegistry(client)
        for user, password in self._passwords.items():
            stored = (await configs.entity("users", sanitize(user))).get(MECHANISM, "")
            if not _fits(stored, password):
                made = {MECHANISM: scram.encode_credential(_credential(password, _salt(), scram.MIN_ITERATIONS))}
                await configs.update_entity("users", sanitize(user), lambda present, made=made: {**present, **made})  # type: ignore[misc]

    def _login(self, user: str) -> str:
        return f'{_LOGIN_MODULE} required username="{user}" password="{self._passwords[user].value}";'


def is_secured(data_dir: Path) -> bool:
    """True if the files in this data directory are those of a secured cluster."""
    return any(os.path.lexists(data_dir / FOLDER / name) for name in (_AUTHORITY, _TRUSTSTORE, _PASSWORDS))


def check_still_open(data_dir: Path) -> None:
    """Raises: EmbeddedError if the cluster was secured at an earlier start."""
    if is_secured(data_dir):
        raise EmbeddedError(
            f"the cluster in {data_dir} is secured, and without --secure it would be open to everyone; if you want "
            f"that, remove {data_dir / FOLDER}"
        )


def _passwords(path: Path) -> dict[str, Password]:
    known: Any = {}
    try:
        with contextlib.suppress(FileNotFoundError):
            known = json.loads(path.read_text())
        if not isinstance(known, dict) or not all(
            _NAME.fullmatch(user) and isinstance(password, str) and _PASSWORD.fullmatch(password)
            for user, password in known.items()
        ):
            raise ValueError
    except ValueError:
        raise EmbeddedError(f"{path} cannot be parsed; remove it to create new passwords") from None
    passwords = {user: Password(known.get(user) or _new_password()) for user in (*USERS, *known)}
    if passwords.keys() != known.keys():
        _write_passwords(path, passwords)
    return passwords


def _write_passwords(path: Path, passwords: Mapping[str, Password]) -> None:
    write_private(path, json.dumps({user: password.value for user, password in passwords.items()}) + "\n")


def _new_password() -> str:
    """Letters and digits need no escaping in any file format."""
    return "".join(secrets.choice(_PASSWORD_CHARACTERS) for _ in range(_PASSWORD_LENGTH))


def _salt() -> bytes:
    return scram.nonce_text(secrets.randbits(_SALT_BITS)).encode()


def _credential(password: Password, salt: bytes, iterations: int) -> scram.ScramCredential:
    salted = scram.salted_password(MECHANISM, password.value, salt, iterations)
    return scram.credential(MECHANISM, salted, salt, iterations)


def _fits(stored: str, password: Password) -> bool:
    try:
        found = scram.decode_credential(stored)
    except ValueError:
        return False
    is_usual = scram.MIN_ITERATIONS <= found.iterations <= scram.MAX_ITERATIONS
    return is_usual and found == _credential(password, found.salt, found.iterations)
