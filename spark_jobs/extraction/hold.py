"""A job's membership in its group: it owns partitions, and writes the manifest and the offsets.

Every write depends on the claims' tokens (versions of the offset znodes); see ``registry/owners.py``.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.client import Check, Create, Operation, RegistryClient, SetData
from kafka_zk.registry.client.errors import ConnectionLoss, MultiFailed, NoNode, SessionLost
from kafka_zk.registry.client.pipeline import ensure_paths
from kafka_zk.registry.client.session import retry_until_connected
from kafka_zk.registry.consumers import ConsumerRegistry
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.owners import Claim, Claimed, OwnerRegistry, Release, Taken
from kafka_zk.registry.znodes import consumers
from kafka_zk.registry.znodes.consumers import ConsumerRegistration
from kafka_zk.spark_jobs.errors import ForeignCommit, GroupBusy
from kafka_zk.spark_jobs.extraction import manifest as manifests
from kafka_zk.spark_jobs.extraction.manifest import Manifest

ABSENT = -1  # the version of an absent manifest


class WrittenManifest(NamedTuple):
    """``written_ms``: by ZooKeeper's clock, in ms since the epoch."""

    manifest: Manifest
    written_ms: int


class GroupHold:
    def __init__(self, client: RegistryClient, group: str, consumer_id: str) -> None:
        self._client = client
        self._group = group
        self._consumer_id = consumer_id
        self._path = manifests.path(group)
        self._members = ConsumerRegistry(client, group)
        self._owners = OwnerRegistry(client, group)
        self._tokens: dict[TopicPartition, int] = {}
        self._manifest_version = ABSENT

    async def join(self, topics: Iterable[str], now_ms: int) -> None:
        """Register with a static subscription, so that old consumers count this member when they assign partitions."""
        registration = ConsumerRegistration(dict.fromkeys(sorted(topics), 1), timestamp_ms=now_ms)
        await ensure_paths(self._client, [consumers.ids_path(self._group), self._path.rpartition("/")[0]])
        path = consumers.id_path(self._group, self._consumer_id)
        await self._client.create(path, consumers.encode_registration(registration), ephemeral=True)

    async def elders(self) -> list[str]:
        """Live members that joined before this member. If several jobs start together, only the first has no elders."""
        members = await self._members.members()
        own = members.get(self._consumer_id)
        return [name for name, each in members.items() if own is None or each.czxid < own.czxid]

    async def is_member(self) -> bool:
        """False once the session has ended."""
        return self._consumer_id in await self._members.members()

    async def outdated(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Offsets that belong to an earlier topic of the same name; a claim sets them to -1."""
        return await self._owners.outdated(partitions)

    async def claim(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the group's offsets, -1 if absent. Raises GroupBusy."""
        thread = consumers.thread_id(self._consumer_id, 0)
        outcomes = await self._owners.claim(Claim(tp, thread) for tp in partitions)
        taken = {tp: outcome.owner for tp, outcome in outcomes.items() if isinstance(outcome, Taken)}
        claimed = {tp: outcome for tp, outcome in outcomes.items() if isinstance(outcome, Claimed)}
        self._tokens = {tp: outcome.token for tp, outcome in claimed.items()}
        if taken:
            tp = min(taken)
            raise GroupBusy(f"{tp} is owned by {taken[tp]} of group {self._group}")
        return {tp: outcome.offset for tp, outcome in claimed.items()}

    async def read_manifest(self) -> Manifest | None:
        """Read the manifest of the last run.

        Raises: InvalidZnode; ForeignCommit if a claim was lost. Without this check, the run would compare another run's
        manifest with outdated offsets, and a table could get records twice.
        """
        try:
            data, stat = await self._client.get(self._path)
        except NoNode:
            data, stat = None, None
        await self._check_claims()
        self._manifest_version = ABSENT if stat is None else stat.version
        return None if data is None else manifests.decode(self._path, data)

    async def written_manifest(self) -> WrittenManifest | None:
        """The manifest, and when it was written, for callers that only read; None if there is none. Raises
        InvalidZnode."""
        try:
            data, stat = await self._client.get(self._path)
        except NoNode:
            return None
        return WrittenManifest(manifests.decode(self._path, data), stat.mtime_ms)

    async def write_plan(self, manifest: Manifest, moves: Mapping[TopicPartition, int]) -> None:
        """Write the manifest and the offsets in ``moves``. Raises ForeignCommit."""
        await self._move(manifest, moves)

    async def commit(self, manifest: Manifest) -> None:
        """Move all offsets to the ends of the ranges, together with the manifest. Raises ForeignCommit."""
        await self._move(manifest, {each.tp: each.until_offset for each in manifest.ranges})

    async def record(self, manifest: Manifest) -> None:
        """Write only the manifest. Raises ForeignCommit if another run has written it."""
        await self._move(manifest, {})

    async def leave(self) -> None:
        """Leave the group; its offsets stay."""
        await self._owners.release({tp: Release(None, token) for tp, token in self._tokens.items()})
        self._tokens = {}
        await self._members.unregister(self._consumer_id)

    async def offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The current offsets, without owning the partitions."""
        stored = await OffsetRegistry(self._client, self._group).fetch(partitions)
        return {tp: each.offset for tp, each in stored.items()}

    async def _check_claims(self) -> None:
        checks = [Check(consumers.offset_path(self._group, *tp), token) for tp, token in self._tokens.items()]
        if not checks:
            return  # a reader owns nothing
        try:
            await retry_until_connected(self._client, lambda: self._client.multi(checks))
        except MultiFailed as failed:
            raise self._written_by_others(checks[failed.index]) from failed

    async def _move(self, manifest: Manifest, offsets: Mapping[TopicPartition, int]) -> None:
        """Write manifest and offsets in one multi, repeated until there is a response. Raises ForeignCommit."""
        data = manifests.encode(manifest)
        operations: list[Operation] = [
            Create(self._path, data)
            if self._manifest_version == ABSENT
            else SetData(self._path, data, self._manifest_version)
        ]
        for tp, offset in offsets.items():
            path = consumers.offset_path(self._group, *tp)
            operations.append(SetData(path, consumers.encode_offset(offset), self._tokens[tp]))
        in_doubt = False
        while True:
            try:
                await self._client.multi(operations)
                break
            except (ConnectionLoss, SessionLost):  # repeated, because versions fence the write, not the session
                in_doubt = True
            except MultiFailed as failed:
                if in_doubt and await self._written(data):
                    break
                raise self._refusal(failed, operations) from failed
        self._manifest_version += 1
        self._tokens.update({tp: self._tokens[tp] + 1 for tp in offsets})

    async def _written(self, data: bytes) -> bool:
        """True if a multi without a response was applied, that is, if the manifest is this run's."""
        try:
            present, stat = await retry_until_connected(self._client, lambda: self._client.get(self._path))
        except NoNode:
            return False  # the group was removed
        return present == data and stat.version == self._manifest_version + 1

    def _refusal(self, failed: MultiFailed, operations: list[Operation]) -> ForeignCommit:
        if failed.index == 0:
            return ForeignCommit(f"another extraction of group {self._group} has written the manifest meanwhile")
        return self._written_by_others(operations[failed.index])

    @staticmethod
    def _written_by_others(operation: Operation) -> ForeignCommit:
        return ForeignCommit(f"another client has written {operation.path} meanwhile")
