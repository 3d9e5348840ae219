"""All reads and writes of one term in ZooKeeper, pipelined.

Writes are fenced by the version of ``/controller_epoch`` that the term wrote. A write begins only while the session's
lease is held, and waits while the connection is suspended. After a connection loss, the store finds out which writes
were applied, and repeats the others. So a caller sees a result, an expected refusal (NodeExists, NoNode, BadVersion,
NotEmpty), or the term's end: ControllerMoved, SessionLost.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from kafka_zk.base.clock import Timers
from kafka_zk.base.turns import run_in_turns
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.context import LeadershipInfo, LiveBroker
from kafka_zk.protocol.topic_names import is_legal_name
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.client.client import Create, Delete, Operation, RegistryClient, SessionState, SetData, ZnodeStat
from kafka_zk.registry.client.errors import (
    BadVersion,
    ConnectionLoss,
    ControllerMoved,
    InvalidZnode,
    NodeExists,
    NoNode,
    NotEmpty,
    RegistryError,
    SessionLost,
)
from kafka_zk.registry.client.pipeline import READS_AT_ONCE, found, read_all, readable
from kafka_zk.registry.controller import ControllerRegistry
from kafka_zk.registry.faults import ZnodeFaults
from kafka_zk.registry.unclean_starts import read_unclean_starts
from kafka_zk.registry.znodes import admin, config, isr, topics
from kafka_zk.registry.znodes.config import EntityConfig
from kafka_zk.registry.znodes.topics import TopicAssignment

T = TypeVar("T")
Result = str | ZnodeStat | None

_log = Logger()

PAUSE_AFTER_LOSS_S = 0.05
SHOWN_PATH_CHARACTERS = 300


class StoredTopic(NamedTuple):
    """A topic's znode: its decoded content, its version, the zxid of its last write, its data."""

    assignment: TopicAssignment
    zk_version: int
    zxid: int
    data: bytes | None = None


class StoredOrders(NamedTuple):
    """The valid reassignment requests, and their znode's stat if it exists."""

    targets: dict[TopicPartition, list[int]]
    stat: ZnodeStat | None


class ControllerStore:
    """The active controller's access to ZooKeeper; after ``close``, every operation raises ControllerMoved."""

    def __init__(
        self, client: RegistryClient, clock: Timers, registry: ControllerRegistry, epoch_zk_version: int
    ) -> None:
        self._client = client
        self._clock = clock
        self._registry = registry
        self._epoch_zk_version = epoch_zk_version
        self._session_id = client.session_id
        self._waiting: list[Deferred[None]] = []
        self._faults = ZnodeFaults(lambda fault: _log.error("ignored: {fault}", fault=fault))
        self._illegal_topics: set[str] = set()
        self._closed = False
        self._remove_listener = client.add_session_listener(self._session_changed)

    def close(self) -> None:
        self._closed = True
        self._remove_listener()
        self._wake()

    async def ready(self) -> None:
        """Wait until the session is certainly alive. Raises ControllerMoved, SessionLost."""
        while True:
            self._require_term()
            if self._client.state is SessionState.SUSPENDED:
                waiting: Deferred[None] = Deferred()
                self._waiting.append(waiting)
                await waiting
            elif self._client.lease_held():
                return
            else:
                await self._renew_lease()

    # -- reading --

    async def repeated(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Read, and repeat the read after each connection loss."""
        while True:
            await self.ready()
            try:
                return await attempt()
            except ConnectionLoss:
                await self._pause()

    async def brokers(self) -> dict[int, LiveBroker]:
        live = await self.repeated(BrokerRegistry(self._client).live)
        return {broker_id: LiveBroker(*entry) for broker_id, entry in live.items()}

    async def unclean_starts(self) -> dict[int, list[str]]:
        """Broker id -> paths of its announcements of unclean starts. Call this after ``brokers``, because a broker
        writes its registration and announcement in one transaction."""
        return await self.repeated(lambda: read_unclean_starts(self._client))

    async def children(self, path: str) -> list[str]:
        """Sorted names of the children; empty if ``path`` does not exist. Raises: NoAuth."""
        (answer,) = await self.repeated(lambda: found([self._client.children(path)]))
        return [] if answer is None else answer[0]

    async def children_of(self, paths: Sequence[str]) -> dict[str, list[str]]:
        """Path -> sorted names of its children; empty if it does not exist or an ACL hides it, which is logged as an
        ERROR."""
        read = await self.repeated(lambda: readable(self._client.children(path) for path in paths))
        answers = self._faults.visible(paths, read)
        return {path: [] if answer is None else answer[0] for path, answer in zip(paths, answers, strict=True)}

    async def topic_names(self) -> set[str]:
        """All topics; illegal names are logged and ignored."""
        names = set(await self.children(topics.TOPICS))
        illegal = {name for name in names if not is_legal_name(name)}
        for name in self._illegal_topics - illegal:
            self._faults.forget(topics.topic_path(name)[:SHOWN_PATH_CHARACTERS])
        self._illegal_topics = illegal
        for name in illegal:
            self._faults.found(topics.topic_path(name)[:SHOWN_PATH_CHARACTERS], ["a topic cannot have this name"])
        return names - illegal

    async def topics(self, names: Sequence[str]) -> dict[str, StoredTopic]:
        """Existing topics; one with an invalid znode has no partitions."""
        stored: dict[str, StoredTopic] = {}
        for window in _windows(names):
            paths = [topics.topic_path(name) for name in window]
            for name, path, answer in zip(window, paths, await self.get_all(paths), strict=True):
                if answer is not None:
                    data, stat = answer
                    stored[name] = StoredTopic(await self._assignment(name, path, data), stat.version, stat.mzxid, data)
        return stored

    async def _assignment(self, topic: str, path: str, data: bytes | None) -> TopicAssignment:
        """The assignment; empty if the znode is invalid. It is decoded in turns, because there may be tens of thousands
        of partitions."""
        try:
            steps = topics.decode_assignment_in_steps(topic, data)
            assignment: TopicAssignment = await run_in_turns(self._clock, steps)
        except InvalidZnode as error:
            self._faults.found(path, [str(error)])
            return TopicAssignment({})
        self._faults.found(path, assignment.faults)
        return assignment

    async def states(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, LeadershipInfo | None]:
        """The state of each partition with its znode's version and zxid; None if the znode is missing or invalid."""
        states: dict[TopicPartition, LeadershipInfo | None] = {}
        for window in _windows(partitions):
            paths = [topics.state_path(tp.topic, tp.partition) for tp in window]
            for tp, path, answer in zip(window, paths, await self.get_all(paths), strict=True):
                if answer is None:
                    states[tp] = None
                else:
                    data, stat = answer
                    decode = partial(topics.decode_state, *tp, data, stat.version, stat.mzxid)
                    states[tp] = self._understood(path, decode)
        return states

    async def topic_configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        paths = [config.entity_path("topics", name) for name in names]
        configs: dict[str, dict[str, str]] = {}
        for name, path, answer in zip(names, paths, await self.get_all(paths), strict=True):
            stored = None if answer is None else self._understood(path, partial(config.decode, path, answer[0]))
            configs[name] = {} if stored is None else stored.values
        return configs

    async def log_dir_events(self, paths: Sequence[str]) -> set[int]:
        """The brokers that the notifications at these paths name."""
        broker_ids = [
            self._understood(path, partial(isr.decode_log_dir_event, path, answer[0]))
            for path, answer in zip(paths, await self.get_all(paths), strict=True)
            if answer is not None
        ]
        for path in paths:
            self._faults.forget(path)
        return {broker_id for broker_id in broker_ids if broker_id is not None}

    async def isr_changes(self, paths: Sequence[str]) -> set[TopicPartition]:
        """The partitions that the notifications at these paths name."""
        partitions: set[TopicPartition] = set()
        for path, answer in zip(paths, await self.get_all(paths), strict=True):
            if answer is not None:
                partitions |= self._understood(path, partial(isr.decode_isr_change, path, answer[0])) or set()
        for path in paths:
            self._faults.forget(path)
        return partitions

    async def reassignment_orders(self) -> StoredOrders:
        """The requested targets by partition; empty if the znode is missing or invalid."""
        path = admin.REASSIGN_PARTITIONS
        (answer,) = await self.get_all([path])
        if answer is None:
            self._faults.forget(path)
            return StoredOrders({}, None)
        return StoredOrders(self._understood(path, partial(admin.decode_reassignment, answer[0])) or {}, answer[1])

    async def preferred_elections(self) -> set[TopicPartition] | None:
        """The request's partitions; empty if it is invalid."""
        path = admin.PREFERRED_REPLICA_ELECTION
        (answer,) = await self.get_all([path])
        self._faults.forget(path)
        if answer is None:
            return None
        return self._understood(path, partial(admin.decode_partitions, path, answer[0])) or set()

    async def get_all(self, paths: Sequence[str]) -> list[tuple[bytes | None, ZnodeStat] | None]:
        """Data and stat of each path; None if it does not exist or an ACL hides it, which is logged as an ERROR."""
        answers: list[tuple[bytes | None, ZnodeStat] | None] = []
        for window in _windows(paths):
            read = await self.repeated(partial(read_all, self._client, window))
            answers.extend(self._faults.visible(window, read))
        return answers

    # -- writing --

    async def write(
        self, operations: Sequence[Operation], czxids: Mapping[str, int] | None = None
    ) -> list[Result | RegistryError]:
        """Run operations in order, many per multi; each yields a result or refusal.

        Args:
            czxids: path -> czxid of znodes to delete. A repeated deletion keeps a znode that was recreated in between.
        """
        await self.ready()
        outcomes = await self._registry.fenced_writes(self._epoch_zk_version, operations)
        lost = [index for index, outcome in enumerate(outcomes) if isinstance(outcome, ConnectionLoss)]
        while lost:
            await self._pause()
            deleted = await self._deleted_already([operations[index] for index in lost], czxids or {})
            outcomes[:] = [
                None if isinstance(outcome, ConnectionLoss) and operation in deleted else outcome
                for operation, outcome in zip(operations, outcomes, strict=True)
            ]
            await self.ready()
            lost = [index for index in lost if isinstance(outcomes[index], ConnectionLoss)]
            again = [operations[index] for index in lost]
            repeated = await self._registry.fenced_writes(self._epoch_zk_version, again)
            for index, outcome in zip(lost, await self._resolved(again, repeated), strict=True):
                outcomes[index] = outcome
            lost = [index for index in lost if isinstance(outcomes[index], ConnectionLoss)]
        for outcome in outcomes:
            if isinstance(outcome, SessionLost):
                raise outcome
        return outcomes

    async def delete_all(self, paths: Iterable[str], czxids: Mapping[str, int] | None = None) -> None:
        """Delete znodes in order, including children that other clients created. Missing znodes are skipped."""
        wanted = list(paths)
        outcomes = await self.write([Delete(path) for path in wanted], czxids)
        for path, outcome in zip(wanted, outcomes, strict=True):
            tree = await self._tree(path) if isinstance(outcome, NotEmpty) else []
            again = await self.write([Delete(each) for each in tree], czxids) if tree else [outcome]
            for each in again:
                if isinstance(each, RegistryError) and not isinstance(each, NoNode):
                    raise each

    async def delete_topics(self, partitions: Mapping[str, Sequence[int]]) -> None:
        """Delete topics' znodes, leaves first, then the requests to delete the topics.

        The configuration is deleted before the topic, so that a new topic of the same name does not inherit or lose it.
        """
        operations: list[Operation] = []
        topic_at: dict[str, int] = {}  # index of the operation that deletes the topic's znode
        czxids = await self._czxids(
            path
            for topic in partitions
            for path in (topics.topic_path(topic), config.entity_path("topics", topic), admin.delete_topic_path(topic))
        )
        for topic, numbers in partitions.items():
            for number in numbers:
                operations.append(Delete(topics.state_path(topic, number)))
                operations.append(Delete(topics.partition_path(topic, number)))
            operations.append(Delete(topics.partitions_path(topic)))
            operations.append(Delete(config.entity_path("topics", topic)))
            topic_at[topic] = len(operations)
            operations.append(Delete(topics.topic_path(topic)))
        outcomes = await self.write(operations, czxids)
        for topic, index in topic_at.items():
            if isinstance(outcomes[index], NotEmpty):  # another client created znodes below it
                await self.delete_all(await self._tree(topics.topic_path(topic)), czxids)
        await self.delete_all((admin.delete_topic_path(topic) for topic in partitions), czxids)

    async def _tree(self, path: str) -> list[str]:
        """A znode and its descendants, leaves first; one round trip per level."""
        paths: list[str] = []
        level = [path]
        while level:
            paths.extend(level)
            level = [f"{parent}/{name}" for parent, names in (await self.children_of(level)).items() for name in names]
        return paths[::-1]

    def cannot_use(self, path: str, why: object) -> None:
        self._faults.found(path, [str(why)])

    def forget(self, gone: Collection[str]) -> None:
        """Forget faults in deleted topics' znodes."""
        names = set(gone)
        below = len(topics.topic_path(""))
        self._faults.forget_where(lambda path: path[below:].partition("/")[0] in names)

    # -- inside --

    async def _czxids(self, paths: Iterable[str]) -> dict[str, int]:
        wanted = list(paths)
        answers = await self.get_all(wanted)
        return {path: answer[1].czxid for path, answer in zip(wanted, answers, strict=True) if answer is not None}

    async def _deleted_already(self, operations: Sequence[Operation], czxids: Mapping[str, int]) -> set[Operation]:
        """The operations that were applied: their znode is gone or has another czxid."""
        deletions = [operation for operation in operations if isinstance(operation, Delete)]
        present = await self._czxids(deletion.path for deletion in deletions)
        return {
            deletion
            for deletion in deletions
            if deletion.path not in present
            or czxids.get(deletion.path, present[deletion.path]) != present[deletion.path]
        }

    def _understood(self, path: str, decode: Callable[[], T]) -> T | None:
        """The decoded znode; None if it is invalid. Logs an ERROR if it is invalid or if entries are left out."""
        try:
            understood = decode()
        except InvalidZnode as error:
            self._faults.found(path, [str(error)])
            return None
        self._faults.found(path, understood.faults if isinstance(understood, EntityConfig) else ())
        return understood

    async def _resolved(
        self, operations: Sequence[Operation], outcomes: Sequence[Result | RegistryError]
    ) -> list[Result | RegistryError]:
        """If a refused operation had been applied by an earlier attempt, replace the refusal with the operation's
        result."""
        doubtful = [
            (index, operation)
            for index, (operation, outcome) in enumerate(zip(operations, outcomes, strict=True))
            if isinstance(outcome, NodeExists | BadVersion | NoNode)
        ]
        resolved = list(outcomes)
        for (index, operation), present in zip(
            doubtful, await self.get_all([operation.path for _, operation in doubtful]), strict=True
        ):
            if _was_applied(operation, present):
                resolved[index] = operation.path if isinstance(operation, Create) else present and present[1]
        return resolved

    async def _renew_lease(self) -> None:
        """Renew the lease. If there is no response, the session's state changes."""
        try:
            await self._client.sync()
        except ConnectionLoss:
            await self._pause()

    async def _pause(self) -> None:
        waiting: Deferred[None] = Deferred()
        self._clock.callLater(PAUSE_AFTER_LOSS_S, waiting.callback, None)
        await waiting

    def _require_term(self) -> None:
        if self._closed:
            raise ControllerMoved("this term is over")
        if self._client.state is SessionState.LOST or self._client.session_id != self._session_id:
            raise SessionLost("the controller's session is over")

    def _session_changed(self, state: SessionState) -> None:
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            deferred.callback(None)


def _windows(wanted: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(wanted), READS_AT_ONCE):
        yield wanted[start : start + READS_AT_ONCE]


def _was_applied(operation: Operation, present: tuple[bytes | None, ZnodeStat] | None) -> bool:
    """True if the znode is in the state that a successful operation would leave."""
    match operation:
        case Create(_, data):
            return present is not None and present[0] == data
        case SetData(_, data, version):
            return present is not None and present[0] == data and version in (-1, present[1].version - 1)
        case _:
            return present is None
