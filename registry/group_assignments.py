"""The assignment that a group's leader wrote last: reads, conditional writes, watches."""

from collections.abc import Callable

from twisted.logger import Logger

from kafka_zk.base.events import SILENT, EventSource
from kafka_zk.registry.client.client import Create, RegistryClient, ZnodeStat
from kafka_zk.registry.client.errors import BadVersion, ConnectionLoss, InvalidZnode, NodeExists, NoNode
from kafka_zk.registry.client.pipeline import create_with_parents
from kafka_zk.registry.client.session import retry_until_connected
from kafka_zk.registry.client.watches import DataWatcher, Watcher
from kafka_zk.registry.znodes import group_assignment as znodes
from kafka_zk.registry.znodes.group_assignment import GroupAssignment

_log = Logger()

ABSENT = -1  # version of a missing assignment


class GroupAssignmentRegistry:
    """``/consumers/<group>/kafka-zk/assignment``. Invalid content is logged and read as None."""

    def __init__(self, client: RegistryClient, group: str, events: EventSource = SILENT) -> None:
        self._client = client
        self._path = znodes.assignment_path(group)
        self._events = events

    async def read(self) -> tuple[GroupAssignment | None, int]:
        """The assignment and its version; (None, ABSENT) if there is none."""
        try:
            return self._decode(*await self._client.get(self._path))
        except NoNode:
            return None, ABSENT

    async def write(self, assignment: GroupAssignment, expected_version: int) -> int:
        """Replace the assignment that was read at ``expected_version``. Returns the new version.

        After a connection loss, waits for the connection and checks whether the write succeeded.
        Raises: BadVersion if another assignment was written; RequestTooLarge; SessionLost.
        """
        data = znodes.encode(assignment)
        in_doubt = False
        while True:
            try:
                return await self._write(data, expected_version)
            except ConnectionLoss:
                in_doubt = True
                await self._client.connected()
            except BadVersion:
                if in_doubt and await self._present() == (data, expected_version + 1):
                    return expected_version + 1  # this call wrote it, but the response was lost
                raise

    def watch(self, on_change: Callable[[GroupAssignment | None, int], None]) -> Watcher:
        """Report the assignment and its version now and after every change."""

        def changed(data: bytes | None, stat: ZnodeStat | None) -> None:
            on_change(*((None, ABSENT) if stat is None else self._decode(data, stat)))

        return DataWatcher(self._client, self._path, changed, self._events)

    async def _write(self, data: bytes, expected_version: int) -> int:
        if expected_version != ABSENT:
            try:
                return (await self._client.set(self._path, data, expected_version)).version
            except NoNode as error:
                raise BadVersion(self._path) from error
        try:
            await create_with_parents(self._client, Create(self._path, data))
        except NodeExists as error:
            raise BadVersion(self._path) from error
        return 0

    async def _present(self) -> tuple[bytes | None, int] | None:
        try:
            data, stat = await retry_until_connected(self._client, lambda: self._client.get(self._path))
        except NoNode:
            return None
        return data, stat.version

    def _decode(self, data: bytes | None, stat: ZnodeStat) -> tuple[GroupAssignment | None, int]:
        try:
            return znodes.decode(self._path, data), stat.version
        except InvalidZnode as error:
            _log.warn("the group's assignment is ignored: {error}", error=error)
            return None, stat.version
