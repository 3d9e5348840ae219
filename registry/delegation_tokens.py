"""The delegation tokens of the cluster, as Kafka keeps them, and the announcements that they changed.

Every write is conditional, so that of two writers none undoes what the other did, and is announced in the same
transaction. Source: KafkaZkClient.scala, DelegationTokenManagerZk.scala@3.9, which writes unconditionally.
"""

from collections.abc import Callable, Sequence

from twisted.logger import Logger

from kafka_zk.base.events import SILENT, EventSource
from kafka_zk.registry import change_watcher
from kafka_zk.registry.change_watcher import ChangeWatcher
from kafka_zk.registry.client.client import Create, Delete, Operation, RegistryClient, SetData
from kafka_zk.registry.client.errors import BadVersion, InvalidZnode, MultiFailed, NoAuth, NodeExists, NoNode
from kafka_zk.registry.client.pipeline import Found, ensure_paths, read_all
from kafka_zk.registry.client.session import until_answered
from kafka_zk.registry.faults import ZnodeFaults
from kafka_zk.registry.znodes import delegation_token as znodes
from kafka_zk.registry.znodes.delegation_token import TokenInformation

_log = Logger()

MOST_ATTEMPTS = 200
"""A conditional write fails when another writer's succeeds. After this number of failures the writer gives up."""


class DelegationTokenRegistry:
    """``/delegation_token``. Everything goes on over connection losses; each method raises SessionLost."""

    def __init__(self, client: RegistryClient, events: EventSource = SILENT) -> None:
        self._client = client
        self._events = events
        self._faults = ZnodeFaults(lambda fault: _log.error("a token cannot be used: {fault}", fault=fault))

    async def ensure_paths(self) -> None:
        await until_answered(self._client, lambda: ensure_paths(self._client, [znodes.TOKENS, znodes.CHANGES]))

    async def token_ids(self) -> list[str]:
        """All that were written anywhere before this was called. Raises: NoAuth."""

        async def read() -> list[str]:
            await self._client.sync()
            return (await self._client.children(znodes.TOKENS))[0]

        try:
            return await until_answered(self._client, read)
        except NoNode:
            return []

    async def read(self, token_ids: Sequence[str]) -> dict[str, TokenInformation]:
        """What is known of these tokens; without those that are gone, hidden by an ACL or not understood."""
        paths = [znodes.token_path(token_id) for token_id in token_ids]
        found = {}
        for token_id, path, answer in zip(token_ids, paths, await self._read(paths), strict=True):
            if isinstance(answer, NoAuth):
                self._faults.found(path, [str(answer)])
            elif answer is not None:
                try:
                    found[token_id] = znodes.decode(path, answer[0])
                    self._faults.found(path, ())
                except InvalidZnode as error:
                    self._faults.found(path, [str(error)])
        return found

    async def _read(self, paths: Sequence[str]) -> Sequence[Found | NoAuth | None]:
        async def read() -> Sequence[Found | NoAuth | None]:
            await self._client.sync()
            return await read_all(self._client, paths)

        return await until_answered(self._client, read)

    async def create(self, token: TokenInformation) -> None:
        """Add a new token. Raises: NoAuth."""

        async def write() -> None:
            try:
                await self._write(token.token_id, Create(znodes.token_path(token.token_id), znodes.encode(token)))
            except NodeExists:
                pass  # by this call, before its connection was lost: the id is random
            except NoNode:
                await ensure_paths(self._client, [znodes.TOKENS, znodes.CHANGES])
                await write()

        await until_answered(self._client, write)

    async def update(
        self, token_id: str, change: Callable[[TokenInformation], TokenInformation | None]
    ) -> TokenInformation | None:
        """Write what ``change`` makes of a token: None deletes it. Returns what it has become.

        ``change`` is called again if another writer was faster.
        Raises: NoNode if there is no such token; InvalidZnode; NoAuth; what ``change`` raises; BadVersion if other
            writers were faster MOST_ATTEMPTS times.
        """
        return await until_answered(self._client, lambda: self._update(token_id, change))

    async def _update(
        self, token_id: str, change: Callable[[TokenInformation], TokenInformation | None]
    ) -> TokenInformation | None:
        path = znodes.token_path(token_id)
        for _ in range(MOST_ATTEMPTS):
            data, stat = await self._client.get(path)
            present = znodes.decode(path, data)
            changed = change(present)
            if changed == present:
                return present
            write: Operation = Delete(path, stat.version)
            if changed is not None:
                write = SetData(path, znodes.encode(changed), stat.version)
            try:
                await self._write(token_id, write)
            except BadVersion:
                continue
            return changed
        raise BadVersion(f"{path}: other writers were faster {MOST_ATTEMPTS} times")

    async def _write(self, token_id: str, write: Operation) -> None:
        """Together with its announcement. Raises what is in the way of the first of them."""
        path = f"{znodes.CHANGES}/{znodes.CHANGE_PREFIX}"
        announcement = Create(path, znodes.encode_change(token_id), sequential=True)
        try:
            await self._client.multi([write, announcement])
        except MultiFailed as error:
            raise error.cause from None

    async def purge_changes(self, now_ms: int) -> int:
        """Delete old announcements; ``now_ms``: wall clock. Returns how many. Raises: RegistryError."""
        return await change_watcher.purge(self._client, znodes.CHANGES, now_ms)

    def watch_changes(self, on_change: Callable[[str | None], None]) -> ChangeWatcher:
        """Call ``on_change`` with the id in each announcement, those already there first; None: it cannot be
        understood or was gone before it was read, so any token may have changed."""

        def report(path: str, data: bytes | NoAuth | None) -> None:
            try:
                token_id = None if isinstance(data, NoAuth) else znodes.decode_change(path, data)
            except InvalidZnode:
                token_id = None
            on_change(token_id)

        return ChangeWatcher(
            self._client, znodes.CHANGES, znodes.CHANGE_PREFIX, report, self._events, lambda: on_change(None)
        )
