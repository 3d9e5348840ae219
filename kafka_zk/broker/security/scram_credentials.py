"""The SCRAM credentials of all users, from ``/config/users``.

They are kept in memory, because a login must not wait for ZooKeeper. Change notifications update them. A user whose
znode cannot be read or parsed has no credentials. If this broker may not list users, no user has any.
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
"""(mechanism, token id) -> the token's credential; see ``Credentials``."""


class ScramCredentials:
    """The credentials that a broker knows.

    Args:
        secret: the cluster's secret, for invented credentials of unknown users.

    Attributes:
        find_token: finds nothing until ``DelegationTokens`` replaces it.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._by_user: dict[str, dict[str, ScramCredential]] = {}
        self.find_token: FindToken = lambda mechanism, token_id: TokenCredential(self.invented(mechanism, token_id))
        self._reading = DeferredLock()  # an earlier read must not overwrite a later one

    def find(self, mechanism: str, user: str) -> ScramCredential:
        """The user's credential. If it does not exist, an invented one, so that clients cannot find out which names
        exist."""
        found = self._by_user.get(user, {}).get(mechanism)
        return self.invented(mechanism, user) if found is None else found

    def invented(self, mechanism: str, name: str) -> ScramCredential:
        """The credential of an unknown name."""
        return invented_credential(mechanism, name, self._secret)

    def invent_from(self, secret: bytes) -> None:
        """Set the cluster's secret."""
        self._secret = secret

    async def load(self, configs: ConfigRegistry) -> None:
        """Read all users and forget those that no longer exist.

        Raises SessionLost, without a change; NoAuth if listing users is not permitted, after forgetting all users.
        """
        async with self._reading:
            try:
                self._by_user = await _read(configs, await configs.entity_names("users"))
            except NoAuth:
                self._by_user = {}
                raise

    async def reload(self, configs: ConfigRegistry, names: list[str]) -> None:
        """Read users again, by their encoded names. Raises SessionLost."""
        async with self._reading:
            self._by_user.update(await _read(configs, names))


async def _read(configs: ConfigRegistry, names: list[str]) -> dict[str, dict[str, ScramCredential]]:
    wanted = [name for name in names if name != DEFAULT_ENTITY and "/" not in name]
    found = {}
    for start in range(0, len(wanted), READS_AT_ONCE):  # lets other work run; a credential takes about 10 µs
        some = wanted[start : start + READS_AT_ONCE]
        stored = await configs.synced_entities("users", some)
        found.update({desanitize(name): credentials(name, stored.get(name, {})) for name in some})
    return found


def credentials(name: str, properties: Mapping[str, str]) -> dict[str, ScramCredential]:
    """A user's credentials by mechanism; invalid ones are logged and left out."""
    found = {}
    for mechanism in MECHANISMS.keys() & properties.keys():
        try:
            found[mechanism] = decode_credential(properties[mechanism])
        except ValueError as error:
            _log.error("/config/users/{name}: {mechanism}: {error}", name=name, mechanism=mechanism, error=str(error))
    return found
