"""Topics: names, assignments, partition states; creation, added partitions, requested deletions.

Partition states are only read here; the controller writes them (``registry.controller``).
"""

from collections.abc import Callable, Iterable, Mapping

from twisted.logger import Logger

from kafka_zk.base.events import SILENT, EventSource
from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.client import Create, RegistryClient, SetData, ZnodeStat
from kafka_zk.registry.client.errors import BadVersion, ConnectionLoss, InvalidZnode, MultiFailed, NodeExists, NoNode
from kafka_zk.registry.client.pipeline import children_of, create_with_parents, ensure_paths, found, results
from kafka_zk.registry.client.session import retry_until_connected
from kafka_zk.registry.client.watches import ChildrenWatcher, DataWatcher
from kafka_zk.registry.znodes import admin, config
from kafka_zk.registry.znodes import topics as znodes
from kafka_zk.registry.znodes.topics import LeaderIsrAndControllerEpoch, TopicAssignment

_log = Logger()

UNKNOWN_CZXID = -1


class TopicRegistry:
    """``/brokers/topics``, and for new topics ``/config/topics``."""

    def __init__(self, client: RegistryClient, events: EventSource = SILENT) -> None:
        self._client = client
        self._events = events

    async def names(self) -> list[str]:
        return await children_of(self._client, znodes.TOPICS)

    async def exists(self, name: str) -> bool:
        return await self._client.exists(znodes.topic_path(name)) is not None

    async def missing(self, names: Iterable[str]) -> set[str]:
        """The named topics that ZooKeeper's leader does not have."""
        wanted = sorted(set(names))
        await self._client.sync()
        stats = await results(self._client.exists(znodes.topic_path(name)) for name in wanted)
        return {name for name, stat in zip(wanted, stats, strict=True) if stat is None}

    async def assignments(self, names: Iterable[str]) -> dict[str, TopicAssignment]:
        """The existing topics among ``names``, read in one pipeline. Raises InvalidZnode, NoAuth."""
        wanted = list(names)
        answers = await found(self._client.get(znodes.topic_path(name)) for name in wanted)
        return {
            name: znodes.decode_assignment(name, answer[0])
            for name, answer in zip(wanted, answers, strict=True)
            if answer is not None
        }

    async def states(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LeaderIsrAndControllerEpoch]:
        """The existing states with their znode versions, read in one pipeline. Raises InvalidZnode."""
        wanted = list(partitions)
        answers = await found(self._client.get(znodes.state_path(tp.topic, tp.partition)) for tp in wanted)
        return {
            tp: znodes.decode_state(tp.topic, tp.partition, answer[0], answer[1].version)
            for tp, answer in zip(wanted, answers, strict=True)
            if answer is not None
        }

    async def create_topic(
        self, name: str, assignment: Mapping[int, list[int]], topic_id: str | None, config_values: Mapping[str, str]
    ) -> None:
        """Write the topic's config and its assignment in one multi.

        After a connection loss, ``topic_id`` shows whether this call created the topic.
        Raises: NodeExists, without a change; SessionLost: the topic may have been created.
        """
        in_doubt = False
        while True:
            try:
                if not (in_doubt and await self._has_id(name, topic_id)):
                    await self._create_topic(name, assignment, topic_id, config_values)
                return
            except ConnectionLoss:
                in_doubt = True
                await self._client.connected()

    async def _has_id(self, name: str, topic_id: str | None) -> bool:
        present = (await self.assignments([name])).get(name)
        return present is not None and topic_id is not None and present.topic_id == topic_id

    async def _create_topic(
        self, name: str, assignment: Mapping[int, list[int]], topic_id: str | None, config_values: Mapping[str, str]
    ) -> None:
        config_path = config.entity_path("topics", name)
        config_data = config.encode(config_values)
        topic = Create(znodes.topic_path(name), znodes.encode_assignment(TopicAssignment(dict(assignment), topic_id)))
        config_write: Create | SetData = Create(config_path, config_data)
        while True:
            try:
                await self._client.multi([config_write, topic])
                return
            except MultiFailed as failed:
                if failed.index == 0 and isinstance(failed.cause, NodeExists):  # the config of a deleted topic
                    if await self.exists(name):
                        raise NodeExists(topic.path) from failed
                    config_write = SetData(config_path, config_data)
                elif failed.index == 0 and isinstance(failed.cause, NoNode) and isinstance(config_write, SetData):
                    config_write = Create(config_path, config_data)
                elif isinstance(failed.cause, NoNode):
                    await ensure_paths(self._client, [znodes.TOPICS, config.entity_type_path("topics")])
                else:
                    raise failed.cause from failed

    async def add_partitions(self, name: str, added: Mapping[int, list[int]]) -> TopicAssignment:
        """Add partitions to the assignment; the controller then creates them. Returns the new assignment.

        Raises: NoNode, NodeExists for an existing partition, InvalidZnode even for a single invalid entry, which may
            describe a partition with records.
        """
        path = znodes.topic_path(name)
        in_doubt = False
        while True:
            data, stat = await retry_until_connected(self._client, lambda: self._client.get(path))
            before = znodes.decode_assignment(name, data)
            if before.faults:
                raise InvalidZnode(before.faults[0])
            present = sorted(before.partitions.keys() & added.keys())
            if in_doubt and all(before.partitions.get(partition) == added[partition] for partition in added):
                return before  # this call wrote it, but the response was lost
            if present:
                raise NodeExists(f"{path}: partitions {present}")
            after = TopicAssignment({**before.partitions, **added}, before.topic_id, before.adding, before.removing)
            try:
                await self._client.set(path, znodes.encode_assignment(after), stat.version)
                return after
            except BadVersion:
                continue
            except ConnectionLoss:
                in_doubt = True  # the next read shows the outcome

    async def request_deletion(self, name: str) -> None:
        """Request that the controller deletes the topic; idempotent. Raises SessionLost."""
        try:
            await retry_until_connected(
                self._client, lambda: create_with_parents(self._client, Create(admin.delete_topic_path(name)))
            )
        except NodeExists:
            return

    async def deletions(self) -> list[str]:
        """Topics whose deletion was requested and is not finished, sorted. Raises SessionLost."""
        return await retry_until_connected(self._client, lambda: children_of(self._client, admin.DELETE_TOPICS))

    def watch_names(self, on_change: Callable[[list[str]], None]) -> ChildrenWatcher:
        """Report all topics, now and after each creation or deletion."""
        return ChildrenWatcher(self._client, znodes.TOPICS, on_change, self._events)

    def watch_deletions(self, on_change: Callable[[list[str]], None]) -> ChildrenWatcher:
        """Report topics to delete, now and after each change."""
        return ChildrenWatcher(self._client, admin.DELETE_TOPICS, on_change, self._events)

    def watch_assignment(self, name: str, on_change: Callable[[TopicAssignment | None], None]) -> "AssignmentWatcher":
        """Report the assignment, now and after each change; None: deleted, or cannot be parsed."""
        return self.watch_topic(name, lambda assignment, czxid: on_change(assignment))

    def watch_topic(self, name: str, on_change: Callable[[TopicAssignment | None, int], None]) -> "AssignmentWatcher":
        """Like ``watch_assignment``, but also reports the znode's czxid, which distinguishes topics of the same name;
        0: deleted, UNKNOWN_CZXID: hidden by an ACL."""
        return AssignmentWatcher(self._client, name, on_change, self._events)


class AssignmentWatcher:
    """A data watch on one topic znode. Old tools rewrite it as version 1, without ``topic_id``, which the controller
    must restore.

    An assignment that an ACL hides is reported like one that cannot be parsed.
    """

    def __init__(
        self,
        client: RegistryClient,
        name: str,
        on_change: Callable[[TopicAssignment | None, int], None],
        events: EventSource,
    ) -> None:
        self._name = name
        self._on_change = on_change
        self._czxid = UNKNOWN_CZXID
        self._watcher = DataWatcher(client, znodes.topic_path(name), self._read, events, self._hidden)

    def close(self) -> None:
        self._watcher.close()

    def _hidden(self) -> None:
        self._on_change(None, self._czxid)

    def _read(self, data: bytes | None, stat: ZnodeStat | None) -> None:
        self._czxid = UNKNOWN_CZXID if stat is None else stat.czxid
        if stat is None:
            self._on_change(None, 0)
            return
        try:
            assignment = znodes.decode_assignment(self._name, data)
        except InvalidZnode as error:
            _log.warn("a topic's assignment is ignored: {error}", error=error)
            self._on_change(None, stat.czxid)
        else:
            self._on_change(assignment, stat.czxid)
