"""SCRAM users through brokers, or directly in ZooKeeper as with kafka-configs ``--zookeeper``."""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from kafka_zk.cli.terminal.access import open_access
from kafka_zk.cli.terminal.output import note
from kafka_zk.security import scram
from kafka_zk.security.scram import SaltedPassword, ScramLogin

if TYPE_CHECKING:
    from kafka_zk.registry.config import ConfigRegistry


class UserAccess(Protocol):
    def all(self) -> list[ScramLogin]: ...

    def set(self, user: str, password: SaltedPassword) -> None: ...

    def remove(self, user: str, mechanisms: Collection[str]) -> None: ...


def user_access(bootstrap: str, zookeeper: str | None) -> AbstractContextManager[UserAccess]:
    """Raises the errors of ``open_access``."""
    return open_access(bootstrap, zookeeper, _BrokerUsers, _in_zookeeper)


def _in_zookeeper(client: Any) -> UserAccess:
    from kafka_zk.registry.config import ConfigRegistry

    return ZooKeeperUsers(ConfigRegistry(client))


class _BrokerUsers:
    def __init__(self, admin: Any) -> None:
        self._admin = admin.scram

    def all(self) -> list[ScramLogin]:
        users: list[ScramLogin] = self._admin.list_users()
        return users

    def set(self, user: str, password: SaltedPassword) -> None:
        self._admin.set_password(user, password)

    def remove(self, user: str, mechanisms: Collection[str]) -> None:
        self._admin.remove_passwords(user, mechanisms)


class ZooKeeperUsers:
    """Users in ``/config/users``. Brokers are notified of each change."""

    def __init__(self, configs: "ConfigRegistry") -> None:
        self._configs = configs

    def all(self) -> list[ScramLogin]:
        """All users, and a note for each credential that cannot be decoded."""
        from kafka_zk.registry.client.kazoo_blocking import run_blocking

        return sorted(run_blocking(self._all()))

    async def _all(self) -> list[ScramLogin]:
        from kafka_zk.registry.znodes.config import DEFAULT_ENTITY, desanitize

        names = [name for name in await self._configs.entity_names("users") if name != DEFAULT_ENTITY]
        return [
            ScramLogin(desanitize(name), mechanism, _iterations(name, mechanism, properties[mechanism]))
            for name, properties in (await self._configs.entities("users", names)).items()
            for mechanism in scram.MECHANISMS
            if mechanism in properties
        ]

    def set(self, user: str, password: SaltedPassword) -> None:
        encoded = scram.encode_credential(password.credential)
        self._change(user, {password.mechanism: encoded})

    def remove(self, user: str, mechanisms: Collection[str]) -> None:
        """Remove credentials. The user's other configuration stays; if nothing is left, the znode is deleted."""
        self._change(user, dict.fromkeys(mechanisms))

    def _change(self, user: str, changes: Mapping[str, str | None]) -> None:
        from kafka_zk.registry.client.kazoo_blocking import run_blocking
        from kafka_zk.registry.znodes.config import sanitize

        def changed(present: Mapping[str, str]) -> dict[str, str]:
            return {key: value for key, value in {**present, **changes}.items() if value is not None}

        run_blocking(self._configs.update_entity("users", sanitize(user), changed, removes_empty=True))


def _iterations(name: str, mechanism: str, stored: str) -> int | None:
    try:
        return scram.decode_credential(stored).iterations
    except ValueError as error:
        note(f"/config/users/{name}: {mechanism}: {error}")
        return None
