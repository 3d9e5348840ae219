"""The offset registry: ``/consumers/<group>/offsets/<topic>/<partition>``, the next offset to consume.

A claim of a partition (``owners``) also writes its offset znode, whose new version is the claim's *token*. A commit
writes at the token and returns the next one. If a paused member lost the partition, the version has changed and its
commit is refused. The multi also checks that the owner znode exists.

Kafka's old consumers write unconditionally. So a commit that finds another version reads the owner znode. If the owner
znode belongs to this session, and the offset's last write was not a newer claim (a claim's write has the owner znode's
czxid as its zxid), the commit overwrites the offset. Await every commit before releasing the partition, because a later
claim of the same session would also match.

Source: ZookeeperConsumerConnector.scala@0.8.2 (commitOffsets); design: ownership.
"""

from collections.abc import Awaitable, Iterable, Mapping
from typing import NamedTuple

from twisted.logger import Logger

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.client import ANY_VERSION, Check, Create, Operation, RegistryClient, SetData, ZnodeStat
from kafka_zk.registry.client.errors import (
    BadVersion,
    ConnectionLoss,
    InvalidZnode,
    MultiFailed,
    NoAuth,
    NodeExists,
    NoNode,
    RegistryError,
)
from kafka_zk.registry.client.multis import settle
from kafka_zk.registry.client.pipeline import children_of, ensure_paths, found, outcomes, readable
from kafka_zk.registry.client.session import retry_until_connected
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.registry.znodes.json_codec import PARTITIONS, number_of

_log = Logger()


class StoredOffset(NamedTuple):
    """``offset``: -1 if unknown. ``version``: the offset znode's version, for conditional writes; NO_VERSION without
    a znode."""

    offset: int
    version: int


NO_VERSION = -1
"""The version of a missing znode."""


class Commit(NamedTuple):
    """The next offset, and the token of the owner that commits it."""

    offset: int
    token: int


class OffsetRefused(NamedTuple):
    """Nothing was committed."""

    reason: str


NOT_THE_OWNER = OffsetRefused("no longer the owner")

Content = tuple[bytes | None, ZnodeStat] | None  # the result of ``get``; None: no such znode


class OffsetRegistry:
    def __init__(self, client: RegistryClient, group: str) -> None:
        self._client = client
        self._group = group

    async def fetch(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, StoredOffset]:
        """Existing offsets, in one pipeline; invalid ones are logged and count as -1. Raises: NoAuth."""
        stored, hidden = await self.fetch_visible(partitions)
        for error in hidden.values():
            raise error
        return stored

    async def fetch_visible(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, StoredOffset], dict[TopicPartition, NoAuth]]:
        """Like ``fetch``, but also return the partitions whose offset an ACL hides."""
        wanted = list(partitions)
        answers = dict(zip(wanted, await readable(self._client.get(self._path(tp)) for tp in wanted), strict=True))
        hidden = {tp: answer for tp, answer in answers.items() if isinstance(answer, NoAuth)}
        return self.stored({tp: a for tp, a in answers.items() if not isinstance(a, NoAuth)}), hidden

    def stored(self, answers: "Mapping[TopicPartition, Content]") -> dict[TopicPartition, StoredOffset]:
        return {
            tp: StoredOffset(self._decode(tp, answer[0]), answer[1].version)
            for tp, answer in answers.items()
            if answer is not None
        }

    async def partitions(self) -> list[TopicPartition]:
        """The partitions with an offset znode of the group, sorted."""
        return await listed_partitions(self._client, znodes.group_offsets_path(self._group))

    async def commit(self, commits: Mapping[TopicPartition, Commit]) -> dict[TopicPartition, int | OffsetRefused]:
        """Commit as the owner. Returns the new token, or OffsetRefused if this session is not the owner.

        All requests are sent together. After a connection loss, waits for the connection and checks what was written.
        Raises: SessionLost; nothing is owned then, and any commit may have been written.
        """
        settled: dict[TopicPartition, int | OffsetRefused] = {}
        write_at: dict[TopicPartition, int | None] = {tp: commit.token for tp, commit in commits.items()}
        while len(settled) < len(commits):
            try:
                doubtful = [tp for tp in commits if tp not in settled and tp not in write_at]
                await self._look_up(doubtful, commits, write_at, settled)
                await self._write(commits, write_at, settled)
            except ConnectionLoss:
                await self._client.connected()
        return {tp: settled[tp] for tp in commits}

    async def store(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write unconditionally, as tools and brokers do, and create missing znodes and parents. Raises SessionLost."""
        await retry_until_connected(self._client, lambda: self._store(offsets))

    async def store_unchanged(self, writes: Mapping[TopicPartition, StoredOffset]) -> list[TopicPartition]:
        """Write each offset if its znode still has this version, or with NO_VERSION is still absent.

        Returns the partitions with a concurrent write. Raises: ConnectionLoss; any offset may have been written then.
        """
        await ensure_paths(self._client, sorted({znodes.offsets_path(self._group, tp.topic) for tp in writes}))
        written = await outcomes(self._write_unchanged(self._path(tp), write) for tp, write in writes.items())
        refused = []
        for tp, outcome in zip(writes, written, strict=True):
            if isinstance(outcome, BadVersion | NodeExists | NoNode):
                refused.append(tp)
            elif isinstance(outcome, RegistryError):
                raise outcome
        return refused

    def _write_unchanged(self, path: str, write: StoredOffset) -> Awaitable[object]:
        data = znodes.encode_offset(write.offset)
        if write.version == NO_VERSION:
            return self._client.create(path, data)
        return self._client.set(path, data, write.version)

    async def _write(
        self,
        commits: Mapping[TopicPartition, Commit],
        write_at: dict[TopicPartition, int | None],
        settled: dict[TopicPartition, int | OffsetRefused],
    ) -> None:
        """Write at the versions in ``write_at`` (None: create), and empty it; refused writes go to ``_look_up``."""
        versions = list(write_at.items())
        write_at.clear()
        failure: RegistryError | None = None
        multis = [self._write_one(tp, commits[tp].offset, version) for tp, version in versions]
        for (tp, _), outcome in zip(versions, await settle(self._client, multis), strict=True):
            if isinstance(outcome, MultiFailed):
                continue
            if isinstance(outcome, RegistryError):
                failure = outcome
            else:
                written = outcome[-1]
                settled[tp] = written.version if isinstance(written, ZnodeStat) else 0
        if failure is not None:
            raise failure

    def _write_one(self, tp: TopicPartition, offset: int, version: int | None) -> list[Operation]:
        data = znodes.encode_offset(offset)
        write = Create(self._path(tp), data) if version is None else SetData(self._path(tp), data, version)
        return [Check(znodes.owner_path(self._group, *tp), ANY_VERSION), write]

    async def _look_up(
        self,
        doubtful: list[TopicPartition],
        commits: Mapping[TopicPartition, Commit],
        write_at: dict[TopicPartition, int | None],
        settled: dict[TopicPartition, int | OffsetRefused],
    ) -> None:
        """Find out which of these partitions this session owns, and at which versions to write. Offsets are read before
        owners, so that one of the two reads shows a claim in between."""
        offset_paths = [self._path(tp) for tp in doubtful]
        owner_paths = [znodes.owner_path(self._group, *tp) for tp in doubtful]
        answers = await found(self._client.get(path) for path in [*offset_paths, *owner_paths])
        absent: set[str] = set()
        for tp, stored, owner in zip(doubtful, answers[: len(doubtful)], answers[len(doubtful) :], strict=True):
            if owner is None or owner[1].ephemeral_owner != self._client.session_id:
                settled[tp] = NOT_THE_OWNER
            elif stored is None:
                absent.add(znodes.offsets_path(self._group, tp.topic))
                write_at[tp] = None
            else:
                self._judge(tp, commits[tp], stored, owner[1], write_at, settled)
        if absent:
            await ensure_paths(self._client, sorted(absent))

    def _judge(
        self,
        tp: TopicPartition,
        commit: Commit,
        stored: tuple[bytes | None, ZnodeStat],
        owner: ZnodeStat,
        write_at: dict[TopicPartition, int | None],
        settled: dict[TopicPartition, int | OffsetRefused],
    ) -> None:
        data, stat = stored
        if stat.version != commit.token and stat.mzxid == owner.czxid:
            settled[tp] = NOT_THE_OWNER  # the last write was a newer claim
        elif stat.version == commit.token + 1 and data == znodes.encode_offset(commit.offset):
            settled[tp] = stat.version  # this call wrote it, but the response was lost
        else:
            write_at[tp] = stat.version

    async def _store(self, offsets: Mapping[TopicPartition, int]) -> None:
        left = {self._path(tp): znodes.encode_offset(offset) for tp, offset in offsets.items()}
        while left:
            written = await outcomes(self._client.set(path, data) for path, data in left.items())
            left = _still_to_write(left, written, NoNode)
            if left:
                await ensure_paths(self._client, sorted({path.rpartition("/")[0] for path in left}))
                made = await outcomes(self._client.create(path, data) for path, data in left.items())
                left = _still_to_write(left, made, NodeExists)

    def _path(self, tp: TopicPartition) -> str:
        return znodes.offset_path(self._group, *tp)

    def _decode(self, tp: TopicPartition, data: bytes | None) -> int:
        try:
            return max(znodes.NO_OFFSET, znodes.decode_offset(self._path(tp), data))
        except InvalidZnode as error:
            _log.warn("a stored offset is ignored: {error}", error=error)
            return znodes.NO_OFFSET


def _still_to_write(
    writes: Mapping[str, bytes], answers: Iterable[object], refusal: type[RegistryError]
) -> dict[str, bytes]:
    left: dict[str, bytes] = {}
    for (path, data), answer in zip(writes.items(), answers, strict=True):
        if isinstance(answer, refusal):
            left[path] = data
        elif isinstance(answer, RegistryError):
            raise answer
    return left


async def listed_partitions(client: RegistryClient, parent: str) -> list[TopicPartition]:
    """The partitions listed as ``<topic>/<number>`` below ``parent``, sorted; other names are ignored."""
    topics = await children_of(client, parent)
    answers = await found(client.children(f"{parent}/{topic}") for topic in topics)
    return sorted(
        TopicPartition(topic, number)
        for topic, answer in zip(topics, answers, strict=True)
        for name in (answer[0] if answer is not None else ())
        if (number := number_of(name, PARTITIONS)) is not None
    )
