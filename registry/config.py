"""Entity configs (topics, clients, users, brokers, ips) and notifications of changes.

A notification only names the entity; its receivers read the config. Notifications are processed in sequence order. Any
broker may delete them after 15 minutes.
Source: ConfigHandler, ZkNodeChangeNotificationListener and AdminZkClient in Kafka 3.9.
"""

from collections.abc import Callable, Mapping
from functools import partial

from twisted.logger import Logger

from kafka_zk.base.events import SILENT, EventSource
from kafka_zk.registry import change_watcher
from kafka_zk.registry.change_watcher import ChangeWatcher
from kafka_zk.registry.client.client import Create, Delete, Operation, RegistryClient, SetData, ZnodeStat
from kafka_zk.registry.client.errors import (
    BadVersion,
    InvalidZnode,
    MultiFailed,
    NoAuth,
    NodeExists,
    NoNode,
    NotEmpty,
)
from kafka_zk.registry.client.pipeline import (
    READS_AT_ONCE,
    create_with_parents,
    ensure_paths,
    read_all,
    readable,
)
from kafka_zk.registry.client.session import child_names, retry_until_connected
from kafka_zk.registry.faults import ZnodeFaults
from kafka_zk.registry.znodes import config as znodes
from kafka_zk.registry.znodes.config import CONFIG_CHANGE_PREFIX, CONFIG_CHANGES, ConfigChange

_log = Logger()


class ConfigRegistry:
    """Entity names are encoded (``znodes.config.sanitize``)."""

    def __init__(self, client: RegistryClient, events: EventSource = SILENT) -> None:
        self._client = client
        self._events = events
        self._faults = ZnodeFaults(lambda fault: _log.error("a config is invalid: {fault}", fault=fault))
        self._hidden: set[tuple[str, str]] = set()

    async def entity(self, entity_type: str, entity_name: str) -> dict[str, str]:
        """The entity's config; empty if the entity does not exist or its config cannot be parsed. Raises: NoAuth."""
        config = (await self._read(entity_type, [entity_name]))[entity_name]
        if isinstance(config, NoAuth):
            raise config
        return config

    async def entities(self, entity_type: str, entity_names: list[str]) -> dict[str, dict[str, str]]:
        """The configs of the named entities, many per request; empty for an entity without a config.

        Invalid entries, and configs that an ACL hides, are left out. Each is logged as an ERROR once until it changes.
        """
        read = await self._read(entity_type, entity_names)
        return {name: config for name, config in read.items() if not isinstance(config, NoAuth)}

    @property
    def hidden(self) -> frozenset[tuple[str, str]]:
        """(Type, name) of the entities whose config an ACL hid at the last read."""
        return frozenset(self._hidden)

    async def _read(self, entity_type: str, entity_names: list[str]) -> dict[str, dict[str, str] | NoAuth]:
        paths = [znodes.entity_path(entity_type, name) for name in entity_names]
        answers = await read_all(self._client, paths)
        configs: dict[str, dict[str, str] | NoAuth] = {}
        for name, path, answer in zip(entity_names, paths, answers, strict=True):
            if isinstance(answer, NoAuth):
                self._faults.found(path, [str(answer)])
                self._hidden.add((entity_type, name))
                configs[name] = answer
                continue
            config = znodes.decode(path, None if answer is None else answer[0])
            self._faults.found(path, config.faults)
            self._hidden.discard((entity_type, name))
            configs[name] = config.values
        return configs

    async def synced_entities(self, entity_type: str, entity_names: list[str]) -> dict[str, dict[str, str]]:
        """Like ``entities``, but retries after connection losses, and sees everything written before the call.

        Raises: SessionLost.
        """

        async def read() -> dict[str, dict[str, str]]:
            await self._client.sync()
            return await self.entities(entity_type, entity_names)

        return await retry_until_connected(self._client, read)

    async def entity_names(self, entity_type: str) -> list[str]:
        """All entities with a znode, sorted, as up to date as ``synced_entities``.

        Raises: SessionLost; NoAuth.
        """
        return await child_names(self._client, znodes.entity_type_path(entity_type))

    async def names_of_clients_of_users(self) -> list[str]:
        """All ``<user>/clients/<client>`` that have a znode below ``users``. A user is left out if an ACL hides its
        clients. Retries after connection losses. Raises SessionLost."""
        names: list[str] = []
        users = await self.entity_names("users")
        for start in range(0, len(users), READS_AT_ONCE):
            window = users[start : start + READS_AT_ONCE]
            found = await retry_until_connected(self._client, partial(self._clients_of, window))
            for user, clients in zip(window, found, strict=True):
                names += [f"{user}/clients/{client}" for client in clients]
        return names

    async def _clients_of(self, users: list[str]) -> list[list[str]]:
        paths = [znodes.entity_path("users", f"{user}/clients") for user in users]
        answers = await readable(self._client.children(path) for path in paths)
        for path, answer in zip(paths, answers, strict=True):
            self._faults.found(path, [str(answer)] if isinstance(answer, NoAuth) else ())
        return [[] if answer is None or isinstance(answer, NoAuth) else answer[0] for answer in answers]

    async def set_entity(self, entity_type: str, entity_name: str, config_values: Mapping[str, str]) -> None:
        """Replace the entity's config without a notification (see ``change_entity``)."""
        path, data = znodes.entity_path(entity_type, entity_name), znodes.encode(config_values)
        while True:
            try:
                await self._client.set(path, data)
                return
            except NoNode:
                try:
                    await create_with_parents(self._client, Create(path, data))
                    return
                except NodeExists:
                    continue  # another writer created the znode

    async def change_entity(self, entity_type: str, entity_name: str, config_values: Mapping[str, str]) -> None:
        """Replace the entity's config and notify all brokers. Retries after connection losses. Raises SessionLost."""
        await retry_until_connected(self._client, lambda: self.set_entity(entity_type, entity_name, config_values))
        await retry_until_connected(self._client, lambda: self.notify(entity_type, entity_name))

    async def update_entity(
        self,
        entity_type: str,
        entity_name: str,
        change: Callable[[Mapping[str, str]], Mapping[str, str]],
        *,
        removes_empty: bool = False,
    ) -> None:
        """Replace the config with the result of ``change``, and create a notification in the same transaction.

        After a concurrent write, ``change`` is called again. Retries after connection losses. ``removes_empty``: delete
        the znode if nothing is left, as AdminZkClient@3.9 does.
        Raises: SessionLost, NoAuth, InvalidZnode, and whatever ``change`` raises.
        """
        await retry_until_connected(
            self._client, lambda: self._update(entity_type, entity_name, change, removes_empty=removes_empty)
        )

    async def _update(
        self,
        entity_type: str,
        entity_name: str,
        change: Callable[[Mapping[str, str]], Mapping[str, str]],
        *,
        removes_empty: bool,
    ) -> None:
        path = znodes.entity_path(entity_type, entity_name)
        while True:
            try:
                data, stat = await self._client.get(path)
            except NoNode:
                data, stat = None, None
            present = znodes.decode(path, data)
            if present.faults:
                raise InvalidZnode(f"{path}: it is invalid, so it is not changed: {present.faults[0]}")
            values = change(present.values)
            try:
                if removes_empty and not values and await self._removed(entity_type, entity_name, stat):
                    return
                data = znodes.encode(values)
                write: Operation = Create(path, data) if stat is None else SetData(path, data, stat.version)
                await self._write(entity_type, entity_name, write)
                return
            except (NodeExists, BadVersion):
                continue  # another client has written the config
            except NoNode:
                parents = [] if stat is not None else [path.rpartition("/")[0]]
                await ensure_paths(self._client, [CONFIG_CHANGES, *parents])

    async def _removed(self, entity_type: str, entity_name: str, stat: ZnodeStat | None) -> bool:
        """Delete the znode; False if it must stay, because a user's clients have configs."""
        try:
            if stat is None:
                await self.notify(entity_type, entity_name)  # an earlier attempt may have removed the znode
            else:
                path = znodes.entity_path(entity_type, entity_name)
                await self._write(entity_type, entity_name, Delete(path, stat.version))
        except NotEmpty:
            return False
        await self._remove_empty_parents(entity_type, entity_name)
        return True

    async def _write(self, entity_type: str, entity_name: str, write: Operation) -> None:
        """Write the config and its notification in one multi, because a broker without the notification would still
        accept a removed user."""
        try:
            await self._client.multi([write, _announcement(entity_type, entity_name)])
        except MultiFailed as error:
            raise error.cause from None

    async def _remove_empty_parents(self, entity_type: str, entity_name: str) -> None:
        """Delete ``clients`` after a user's last client was deleted, and the user if it has no config."""
        user, separator, _ = entity_name.partition("/clients/")
        if not separator:
            return
        path = znodes.entity_path(entity_type, user)
        try:
            await self._client.delete(f"{path}/clients")
            data, stat = await self._client.get(path)
            if znodes.decode(path, data) == znodes.EntityConfig({}):
                await self._client.delete(path, stat.version)
        except (NoNode, NotEmpty, BadVersion):
            return

    async def notify(self, entity_type: str, entity_name: str) -> None:
        await create_with_parents(self._client, _announcement(entity_type, entity_name))

    async def purge_changes(self, now_ms: int) -> int:
        """Delete old notifications and return their number."""
        return await change_watcher.purge(self._client, CONFIG_CHANGES, now_ms)

    def watch_changes(
        self, on_change: Callable[[str, str], None], on_missed: Callable[[], None] = lambda: None
    ) -> ChangeWatcher:
        """Call ``on_change(entity_type, entity_name)`` for each notification, including old ones. Malformed ones are
        logged and skipped. ``on_missed`` is called if some notifications were deleted unread."""

        def report(path: str, data: bytes | NoAuth | None) -> None:
            if isinstance(data, NoAuth):
                _log.warn("a config change is skipped: {error}", error=data)
                return
            try:
                change = znodes.decode_change(path, data)
            except InvalidZnode as error:
                _log.warn("a config change is skipped: {error}", error=error)
            else:
                on_change(change.entity_type, change.entity_name)

        return ChangeWatcher(self._client, CONFIG_CHANGES, CONFIG_CHANGE_PREFIX, report, self._events, on_missed)


def _announcement(entity_type: str, entity_name: str) -> Create:
    data = znodes.encode_change(ConfigChange(entity_type, entity_name))
    return Create(f"{CONFIG_CHANGES}/{CONFIG_CHANGE_PREFIX}", data, sequential=True)
