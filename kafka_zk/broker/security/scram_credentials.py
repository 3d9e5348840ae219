"""The SCRAM credentials of all users, as ``/config/users`` has them.

They are in memory, since a login must not wait for ZooKeeper, and follow the change notifications. A user whose znode
cannot be read or understood has no credential. If the users cannot be listed, no user has one.

Source: ScramCredentialUtils.java, UserConfigHandler@3.9.
"""

from collections.abc import Callable, Mapping

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from kafka_zk.registry.client.errors import NoAuth
from kafka_zk.registry.client.pipeline import READS_AT_ONCE
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.registry.znodes.config import DEFAULT_ENTITY, desanitize
from kafka_zk.security.scram import MECHANISMS, ScramCredential, TokenCredential, decode_credential, invented_credential

_log = Logger()

FindToken = Callable[[str, str], TokenCredential]
"""By mechanism and the id of a token; see ``Credentials``."""


class ScramCredentials:
    """Attributes: ``find_token``: what finds a delegation token; none until ``DelegationTokens`` do.

    Args:
        secret: the cluster's, from which credentials of users that do not exist are invented.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._by_user: dict[str, dict[str, ScramCredential]] = {}
        self.find_token: FindToken = lambda mechanism, token_id: TokenCredential(self.invented(mechanism, token_id))
        self._reading = DeferredLock()  # so that what was read first does not replace what was read later

    def find(self, mechanism: str, user: str) -> ScramCredential:
        """The user's credential, or an invented one, so that names cannot be probed."""
        found = self._by_user.get(user, {}).get(mechanism)
        return self.invented(mechanism, user) if found is None else found

    def invented(self, mechanism: str, name: str) -> ScramCredential:
        """The credential of a name that does not exist."""
        return invented_credential(mechanism, name, self._secret)

    def invent_from(self, secret: bytes) -> None:
        """The cluster's secret is known now."""
        self._secret = secret

    async def load(self, configs: ConfigRegistry) -> None:
        """Read all users and forget those that are gone.

        Raises: SessionLost, and all stay as they were; NoAuth if the users cannot be listed, and all are forgotten.
        """
        async with self._reading:
            try:
                self._by_user = await _read(configs, await configs.entity_names("users"))
            except NoAuth:
                self._by_user = {}
                raise

    async def reload(self, configs: ConfigRegistry, names: list[str]) -> None:
        """Read users again, by their encoded names. Raises: SessionLost."""
        async with self._reading:
            self._by_user.update(await _read(configs, names))


async def _read(configs: ConfigRegistry, names: list[str]) -> dict[str, dict[str, ScramCredential]]:
    wanted = [name for name in names if name != DEFAULT_ENTITY and "/" not in name]
    found = {}
    for start in range(0, len(wanted), READS_AT_ONCE):  # with other work in between: a credential takes some 10 µs
        some = wanted[start : start + READS_AT_ONCE]
        stored = await configs.entities_until_answered("users", some)
        found.update({desanitize(name): credentials(name, stored.get(name, {})) for name in some})
    return found


def credentials(name: str, properties: Mapping[str, str]) -> dict[str, ScramCredential]:
    """The credentials in a user's configuration by mechanism; one that cannot be understood is left out."""
    found = {}
    for mechanism in MECHANISMS.keys() & properties.keys():
        try:
            found[mechanism] = decode_credential(properties[mechanism])
        except ValueError as error:
            _log.error("/config/users/{name}: {mechanism}: {error}", name=name, mechanism=mechanism, error=str(error))
    return found
