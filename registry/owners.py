"""The owner registry: ``/consumers/<group>/owners/<topic>/<partition>``, an ephemeral of the owning session.

A group's safety depends on this znode alone; an assignment is advice. A claim is one multi: it creates the owner znode,
and writes the offset znode at the version that was read. (It writes the same value, or none if the offset belongs to an
earlier topic, see ``group_topics``.) The offset's new version is the owner's token for commits, so earlier owners
cannot commit. A release is also one multi: it writes the offset at the token and deletes the owner znode. A recreated
ephemeral starts at version 0, so versions cannot fence. Every decision compares ``ephemeral_owner`` with the session,
and another session's znode is never deleted.

Source: ZookeeperConsumerConnector.scala@0.8.2 (reflectPartitionOwnershipDecision); design: ownership.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kafka_zk.base.events import SILENT, EventSource
from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.client import (
    Check,
    Create,
    Delete,
    EventType,
    Operation,
    RegistryClient,
    SetData,
    Watch,
    WatchedEvent,
    ZnodeStat,
)
from kafka_zk.registry.client.errors import (
    ConnectionLoss,
    InvalidZnode,
    MultiFailed,
    NoNode,
    RegistryError,
    SessionLost,
)
from kafka_zk.registry.client.events import WatchArmed, WatchFired
from kafka_zk.registry.client.multis import settle
from kafka_zk.registry.client.pipeline import ensure_paths, found
from kafka_zk.registry.group_topics import GroupTopic, GroupTopicRegistry
from kafka_zk.registry.offsets import OffsetRegistry, StoredOffset, listed_partitions
from kafka_zk.registry.znodes import consumers as znodes


class Claim(NamedTuple):
    tp: TopicPartition
    thread_id: str


class Claimed(NamedTuple):
    """This session owns the partition. ``token``: see ``Commit``. ``offset``: where to continue (-1: unknown).

    ``zxid``: the claim's zxid; 0 if the claim created the offset znode. ``topic_czxid``: 0 if there is no such topic.
    ``outdated``: the discarded offset of an earlier topic of this name; None if nothing was discarded.
    """

    offset: int
    token: int
    zxid: int = 0
    topic_czxid: int = 0
    outdated: int | None = None


class Taken(NamedTuple):
    """Another session owns the partition."""

    owner: str


class Release(NamedTuple):
    """Release a partition after committing ``offset`` (None: nothing)."""

    offset: int | None
    token: int


class _ClaimRead(NamedTuple):
    """The znodes of one partition before a claim; None for those that do not exist."""

    owner: tuple[bytes | None, ZnodeStat] | None
    stored: StoredOffset | None
    topic: GroupTopic
    is_outdated: bool  # the offset belongs to an earlier topic of the same name

    def offset(self) -> int:
        return znodes.NO_OFFSET if self.stored is None or self.is_outdated else self.stored.offset

    def claimed(self, fenced: object) -> Claimed:
        """``fenced``: the result of writing the offset."""
        token, zxid = (fenced.version, fenced.mzxid) if isinstance(fenced, ZnodeStat) else (0, 0)
        outdated = self.stored.offset if self.stored is not None and self.is_outdated else None
        return Claimed(self.offset(), token, zxid, self.topic.czxid, outdated)


class OwnerRegistry:
    """The owners of one group's partitions."""

    def __init__(self, client: RegistryClient, group: str, events: EventSource = SILENT) -> None:
        self._client = client
        self._group = group
        self._events = events
        self._offsets = OffsetRegistry(client, group)
        self._topics = GroupTopicRegistry(client, group)

    async def claim(
        self, claims: Iterable[Claim], on_gone: Callable[[TopicPartition], None] | None = None
    ) -> dict[TopicPartition, Claimed | Taken]:
        """Try to own partitions, in a few round trips. Partitions of other sessions are Taken, without a wait.

        ``on_gone`` is called for Taken partitions, as by ``watch_gone``. This session's own partitions get a new token.
        After a connection loss, waits for the connection and then finds out what happened. Raises: SessionLost (nothing
        is owned then); any other RegistryError after releasing the new claims.
        """
        wanted = {claim.tp: claim.thread_id for claim in claims}
        settled: dict[TopicPartition, Claimed | Taken] = {}
        watches = None if on_gone is None else _OwnerWatches(on_gone)
        while len(settled) < len(wanted):
            try:
                left = {tp: thread for tp, thread in wanted.items() if tp not in settled}
                await self._claim(left, settled, watches)
                outdated = set() if watches is None else watches.gone()
            except ConnectionLoss:
                await self._client.connected()
                outdated = set(settled)  # a watch ends with its connection
            except SessionLost:
                raise
            except RegistryError:
                owned = {tp: outcome for tp, outcome in settled.items() if isinstance(outcome, Claimed)}
                await self.release({tp: Release(None, claimed.token) for tp, claimed in owned.items()})
                raise
            settled = {tp: each for tp, each in settled.items() if isinstance(each, Claimed) or tp not in outdated}
        if watches is not None:
            watches.settled()
        return {tp: settled[tp] for tp in wanted}

    async def release(self, releases: Mapping[TopicPartition, Release]) -> dict[TopicPartition, bool]:
        """Commit and release partitions, in a few round trips.

        False if this session was no longer the owner; nothing was deleted or committed then. After a connection loss,
        waits for the connection and then finds out what happened.
        Raises: SessionLost; nothing is owned then, and any commit may have been written.
        """
        settled: dict[TopicPartition, bool] = {}
        doubts = _Doubts()
        while len(settled) < len(releases):
            try:
                left = {tp: release for tp, release in releases.items() if tp not in settled}
                await self._release(left, doubts, settled)
            except ConnectionLoss:
                await self._client.connected()
        return {tp: settled[tp] for tp in releases}

    async def owners(self, topics: Collection[str] | None = None) -> dict[TopicPartition, str]:
        """The thread that owns each partition, sorted by partition. None: all topics."""
        path = znodes.group_owners_path(self._group)
        partitions = [tp for tp in await listed_partitions(self._client, path) if topics is None or tp.topic in topics]
        answers = await found(self._client.get(self._path(tp)) for tp in partitions)
        return {
            tp: _owner(self._path(tp), answer[0])
            for tp, answer in zip(partitions, answers, strict=True)
            if answer is not None
        }

    async def watch_owned(
        self, partitions: Collection[TopicPartition], on_change: Callable[[TopicPartition, EventType], None]
    ) -> set[TopicPartition]:
        """The partitions whose owner znode is missing or belongs to another session.

        ``on_change`` is called once for each other partition when its owner znode changes or is deleted, even by this
        session. The watch ends silently with the connection, so call this after every reconnect.
        Raises: ConnectionLoss, SessionLost.
        """

        def watch(tp: TopicPartition) -> Watch:
            return lambda event: None if event.type is EventType.NONE else on_change(tp, event.type)

        answers = await found(self._client.get(self._path(tp), watch(tp)) for tp in partitions)
        mine = self._client.session_id
        return {
            tp
            for tp, answer in zip(partitions, answers, strict=True)
            if answer is None or answer[1].ephemeral_owner != mine
        }

    async def watch_gone(self, tp: TopicPartition, on_gone: Callable[[], None]) -> str | None:
        """Call ``on_gone`` once when the owner may be gone, so that a claim can follow.

        Returns the owner's thread id. Without an owner, returns None and calls nothing. The watch ends silently with
        the connection, so call this after every reconnect. Raises: ConnectionLoss, SessionLost.
        """
        path = self._path(tp)
        try:
            data, stat = await self._client.get(path, self._watcher(path, on_gone))
        except NoNode:
            return None
        self._armed(path, stat)
        return _owner(path, data)

    def _watcher(self, path: str, on_gone: Callable[[], None]) -> Watch:
        def fired(event: WatchedEvent) -> None:
            self._events.emit(WatchFired, path, event.type, cause=event.type.value)
            if event.type is not EventType.NONE:
                on_gone()

        return fired

    def _armed(self, path: str, stat: ZnodeStat) -> None:
        self._events.emit(WatchArmed, path, cause="waiting for the owner", zxid=stat.mzxid)

    # Claims

    async def _claim(
        self,
        wanted: Mapping[TopicPartition, str],
        settled: dict[TopicPartition, Claimed | Taken],
        watches: "_OwnerWatches | None",
    ) -> None:
        """Make one attempt. Partitions that change during the attempt stay unsettled."""
        reads = await self._read(wanted, watches)
        await self._ensure_parents(tp.topic for tp, read in reads.items() if read.stored is None)
        await self._topics.remember({tp.topic: read.topic for tp, read in reads.items()})
        multis: dict[TopicPartition, list[Operation]] = {}
        for tp, thread in wanted.items():
            path = self._path(tp)
            read = reads[tp]
            if read.owner is None:
                own: Operation = Create(path, znodes.encode_owner(thread), ephemeral=True)
            else:
                data, stat = read.owner
                if stat.ephemeral_owner != self._client.session_id:
                    settled[tp] = Taken(_owner(path, data))
                    if watches is not None:
                        self._armed(path, stat)
                    continue
                own = self._as_thread(tp, thread, data, stat.version)
            multis[tp] = [own, self._fence(tp, read)]
        refused = await self._settle_claims(multis, reads, settled)
        await self._ensure_parents(tp.topic for tp, failed in refused.items() if isinstance(failed.cause, NoNode))

    async def outdated(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The stored offsets of earlier topics, which a claim would discard. Writes nothing."""
        reads = await self._read(partitions, None)
        return {tp: read.stored.offset for tp, read in reads.items() if read.stored is not None and read.is_outdated}

    async def _read(
        self, partitions: Collection[TopicPartition], watches: "_OwnerWatches | None"
    ) -> dict[TopicPartition, _ClaimRead]:
        """Read what claims depend on: owners first, so that a released partition's offset is complete; topics last, to
        recognise an earlier topic's offset."""
        topics = sorted({tp.topic for tp in partitions})
        pending: list[Awaitable[Any]] = [self._read_owner(tp, watches) for tp in partitions]
        pending += [self._client.get(znodes.offset_path(self._group, *tp)) for tp in partitions]
        topics_read = self._topics.begin_read(topics)
        pending += topics_read.reads()
        answers = await found(pending)
        count = len(partitions)
        offsets = dict(zip(partitions, answers[count : 2 * count], strict=True))
        stored = self._offsets.stored(offsets)
        seen = topics_read.seen(answers[2 * count :])
        reads = {}
        for (tp, answer), owner in zip(offsets.items(), answers, strict=False):
            is_outdated = answer is not None and seen[tp.topic].outdates(answer[1]) and stored[tp].offset >= 0
            reads[tp] = _ClaimRead(owner, stored.get(tp), seen[tp.topic], is_outdated)
        return reads

    def _read_owner(
        self, tp: TopicPartition, watches: "_OwnerWatches | None"
    ) -> Awaitable[tuple[bytes | None, ZnodeStat]]:
        path = self._path(tp)
        return self._client.get(path, None if watches is None else self._watcher(path, partial(watches.fired, tp)))

    async def _settle_claims(
        self,
        multis: Mapping[TopicPartition, list[Operation]],
        reads: Mapping[TopicPartition, _ClaimRead],
        settled: dict[TopicPartition, Claimed | Taken],
    ) -> dict[TopicPartition, MultiFailed]:
        """Returns the refused claims. Raises the first other error when all have completed."""
        refused: dict[TopicPartition, MultiFailed] = {}
        failure: RegistryError | None = None
        for tp, outcome in zip(multis, await settle(self._client, list(multis.values())), strict=True):
            if isinstance(outcome, MultiFailed):
                refused[tp] = outcome
            elif isinstance(outcome, RegistryError):
                failure = outcome
            else:
                settled[tp] = reads[tp].claimed(outcome[-1])
        if failure is not None:
            raise failure
        return refused

    def _fence(self, tp: TopicPartition, read: _ClaimRead) -> Operation:
        """Write the offset, or -1 if it is outdated, because the znode's new version invalidates older tokens."""
        path = znodes.offset_path(self._group, *tp)
        data = znodes.encode_offset(read.offset())
        return Create(path, data) if read.stored is None else SetData(path, data, read.stored.version)

    def _as_thread(self, tp: TopicPartition, thread_id: str, present: bytes | None, version: int) -> Operation:
        """Write the thread only if it differs from ``present``, because other members may watch the znode."""
        data = znodes.encode_owner(thread_id)
        return Check(self._path(tp), version) if data == present else SetData(self._path(tp), data, version)

    async def _ensure_parents(self, topics: Iterable[str]) -> None:
        parents = {path(self._group, topic) for topic in topics for path in (znodes.owners_path, znodes.offsets_path)}
        if parents:
            await ensure_paths(self._client, sorted(parents))

    # Releases

    async def _release(
        self, releases: Mapping[TopicPartition, Release], doubts: "_Doubts", settled: dict[TopicPartition, bool]
    ) -> None:
        """Make one attempt. Partitions that change during the attempt stay unsettled."""
        reread = [tp for tp in releases if tp in doubts.tokens]
        paths = [znodes.offset_path(self._group, *tp) for tp in reread] + [self._path(tp) for tp in releases]
        answers = await found(self._client.get(path) for path in paths)  # offsets first, so that a later claim shows
        versions = {tp: answer and answer[1].version for tp, answer in zip(reread, answers, strict=False)}
        await self._ensure_parents(tp.topic for tp, version in versions.items() if version is None)
        multis: dict[TopicPartition, list[Operation]] = {}
        for (tp, release), answer in zip(releases.items(), answers[len(reread) :], strict=True):
            if answer is None or answer[1].ephemeral_owner != self._client.session_id:
                settled[tp] = tp in doubts.sent
                continue
            commit = self._final_commit(tp, release.offset, versions.get(tp, release.token))
            multis[tp] = [commit, Delete(self._path(tp), answer[1].version)]
        failure: RegistryError | None = None
        for tp, outcome in zip(multis, await settle(self._client, list(multis.values())), strict=True):
            if isinstance(outcome, MultiFailed):
                if outcome.index == 0:
                    doubts.tokens.add(tp)
            elif isinstance(outcome, RegistryError):
                doubts.sent.add(tp)
                failure = outcome
            else:
                settled[tp] = True
        if failure is not None:
            raise failure

    def _final_commit(self, tp: TopicPartition, offset: int | None, version: int | None) -> Operation:
        path = znodes.offset_path(self._group, *tp)
        if version is None:
            return Create(path, znodes.encode_offset(znodes.NO_OFFSET if offset is None else offset))
        return Check(path, version) if offset is None else SetData(path, znodes.encode_offset(offset), version)

    def _path(self, tp: TopicPartition) -> str:
        return znodes.owner_path(self._group, *tp)


class _OwnerWatches:
    """Watches of the owners that a claim found. If an owner znode changes before the claim is settled, the claim reads
    again."""

    def __init__(self, on_gone: Callable[[TopicPartition], None]) -> None:
        self._on_gone = on_gone
        self._is_settled = False
        self._gone: set[TopicPartition] = set()

    def gone(self) -> set[TopicPartition]:
        gone, self._gone = self._gone, set()
        return gone

    def fired(self, tp: TopicPartition) -> None:
        if self._is_settled:
            self._on_gone(tp)
        else:
            self._gone.add(tp)

    def settled(self) -> None:
        self._is_settled = True


class _Doubts:
    """Cases that a release must examine: overwritten tokens and lost responses."""

    def __init__(self) -> None:
        self.tokens: set[TopicPartition] = set()
        self.sent: set[TopicPartition] = set()


def _owner(path: str, data: bytes | None) -> str:
    try:
        return znodes.decode_owner(path, data)
    except InvalidZnode:
        return (data or b"").decode(errors="replace")
