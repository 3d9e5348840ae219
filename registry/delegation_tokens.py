"""The cluster's delegation tokens in Kafka's format, with notifications of changes.

Unlike Kafka's, writes are conditional, so that no concurrent write is lost. Each write includes its notification.
Source: KafkaZkClient.scala, DelegationTokenManagerZk.scala@3.9.
"""

from collections.abc import Callable, Sequence

from twisted.logger import Logger

from kafka_zk.base.events import SILENT, EventSource
from kafka_zk.registry import change_watcher
from kafka_zk.registry.change_watcher import ChangeWatcher
from kafka_zk.registry.client.client import Create, Delete, Operation, RegistryClient, SetData
from kafka_zk.registry.client.errors import BadVersion, InvalidZnode, MultiFailed, NoAuth, NodeExists, NoNode
from kafka_zk.registry.client.pipeline import Found, ensure_paths, read_all
from kafka_zk.registry.client.session import child_names, retry_until_connected
from kafka_zk.registry.faults import ZnodeFaults
from kafka_zk.registry.znodes import delegation_token as znodes
from kafka_zk.registry.znodes.delegation_token import TokenInformation

_log = Logger()

MOST_ATTEMPTS = 200
"""Maximum number of attempts of a conditional write, which fails if another writer was faster."""


class DelegationTokenRegistry:
    """All methods survive connection losses and raise SessionLost.

    ``hidden``: ids of tokens that an ACL hid at their last read.
    """

    def __init__(self, client: RegistryClient, events: EventSource = SILENT) -> None:
        self._client = client
        self._events = events
        self.hidden: set[str] = set()
        self._faults = ZnodeFaults(lambda fault: _log.error("a token cannot be used: {fault}", fault=fault))

    async def ensure_paths(self) -> None:
        await retry_until_connected(self._client, lambda: ensure_paths(self._client, [znodes.TOKENS, znodes.CHANGES]))

    async def token_ids(self) -> list[str]:
        """All token ids, including those that any client wrote before the call. Raises: NoAuth."""
        return await child_names(self._client, znodes.TOKENS)

    async def read(self, token_ids: Sequence[str]) -> dict[str, TokenInformation]:
        """The named tokens, without deleted, hidden and invalid ones."""
        paths = [znodes.token_path(token_id) for token_id in token_ids]
        found = {}
        self.hidden.difference_update(token_ids)
        for token_id, path, answer in zip(token_ids, paths, await self._read(paths), strict=True):
            if isinstance(answer, NoAuth):
                self.hidden.add(token_id)
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

        return await retry_until_connected(self._client, read)

    async def create(self, token: TokenInformation) -> None:
        """Write a new token. Raises: NoAuth."""

        async def write() -> None:
            try:
                await self._write(token.token_id, Create(znodes.token_path(token.token_id), znodes.encode(token)))
            except NodeExists:
                pass  # ids are random, so this call created it before a connection loss
            except NoNode:
                await ensure_paths(self._client, [znodes.TOKENS, znodes.CHANGES])
                await write()

        await retry_until_connected(self._client, write)

    async def update(
        self, token_id: str, change: Callable[[TokenInformation], TokenInformation | None]
    ) -> TokenInformation | None:
        """Replace a token by the result of ``change`` (None: delete it), and return that.

        After a concurrent write, ``change`` is called again.
        Raises: NoNode; InvalidZnode; NoAuth; exceptions of ``change``; BadVersion after MOST_ATTEMPTS.
        """
        return await retry_until_connected(self._client, lambda: self._update(token_id, change))

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
        raise BadVersion(f"{path}: other writers changed it during all {MOST_ATTEMPTS} attempts")

    async def _write(self, token_id: str, write: Operation) -> None:
        """Write the token and a notification in one multi."""
        path = f"{znodes.CHANGES}/{znodes.CHANGE_PREFIX}"
        announcement = Create(path, znodes.encode_change(token_id), sequential=True)
        try:
            await self._client.multi([write, announcement])
        except MultiFailed as error:
            raise error.cause from None

    async def purge_changes(self, now_ms: int) -> int:
        """Delete old notifications and return their number. Raises: RegistryError."""
        return await change_watcher.purge(self._client, znodes.CHANGES, now_ms)

    def watch_changes(self, on_change: Callable[[str | None], None]) -> ChangeWatcher:
        """Call ``on_change`` with the id in each notification, even old ones; None: any token may have changed, because
        a notification is invalid or was deleted unread."""

        def report(path: str, data: bytes | NoAuth | None) -> None:
            try:
                token_id = None if isinstance(data, NoAuth) else znodes.decode_change(path, data)
            except InvalidZnode:
                token_id = None
            on_change(token_id)

        return ChangeWatcher(
            self._client, znodes.CHANGES, znodes.CHANGE_PREFIX, report, self._events, lambda: on_change(None)
        )
