"""Writes of a hold during which the connection to ZooKeeper breaks: each is repeated, found to be written, refused, or
given up.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.client import Operation, RegistryClient
from kafka_zk.registry.client.errors import ConnectionLoss, ConnectionTimeout, RegistryError, SessionLost
from kafka_zk.registry.groups import delete_tree
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.znodes import consumers
from kafka_zk.spark_jobs.errors import ForeignCommit
from kafka_zk.spark_jobs.extraction.hold import GroupHold
from kafka_zk.spark_jobs.extraction.manifest import Manifest, State, planned
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from tests.registry.world import World

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MANIFEST = planned([OffsetRange(*T0, 0, 9), OffsetRange(*T1, 0, 3)], "file:/lake", "parquet", "a", 0)
COMMITTED = MANIFEST.to(State.COMMITTED)
BROKEN = [ConnectionLoss, SessionLost]
"""After these errors, it is unknown whether the multi was carried out. The run's client waits for a new connection."""

Send = Callable[[], Awaitable[Any]]
Attempt = Callable[[Send], Coroutine[Any, Any, Any]]


def unsent(error: type[RegistryError]) -> Attempt:
    """The connection breaks before the server receives the multi."""

    async def attempt(send: Send) -> Any:
        raise error("/path")

    return attempt


def unanswered(error: type[RegistryError], meanwhile: Send | None = None) -> Attempt:
    """The connection breaks before the response arrives. Something may happen before the next connection."""

    async def attempt(send: Send) -> Any:
        await send()
        if meanwhile is not None:
            await meanwhile()
        raise error("/path")

    return attempt


class Shaky:
    """A client whose next multis end as ``attempts`` say; later ones succeed."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self.attempts: list[Attempt] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def multi(self, operations: Sequence[Operation]) -> Awaitable[Any]:
        def send() -> Awaitable[Any]:
            return self._client.multi(operations)

        return ensureDeferred(self.attempts.pop(0)(send)) if self.attempts else send()


class Group:
    """A hold that has claimed its partitions and written its plan, and another client."""

    def __init__(self) -> None:
        world = World()
        self.run = world.scheduler.run
        self.client, self.other = Shaky(world.clients[0]), world.clients[1]
        self.hold = GroupHold(self.client, "g", "c")
        self.run(self.hold.join(["t"], 0))
        assert self.run(self.hold.claim([T0, T1])) == {T0: -1, T1: -1}
        self.run(self.hold.write_plan(MANIFEST, {T0: 0, T1: 0}))

    def left(self) -> tuple[Manifest | None, dict[TopicPartition, int]]:
        """The state that the next run finds."""
        found = GroupHold(self.other, "g", "d")
        return self.run(found.read_manifest()), self.run(found.offsets([T0, T1]))

    async def foreign_commit(self) -> None:
        await OffsetRegistry(self.other, "g").store({T1: 2})

    async def next_run(self) -> None:
        """Another run that found the manifest of this one, and published."""
        found = GroupHold(self.other, "g", "d")
        manifest = await found.read_manifest()
        assert manifest is not None
        await found.record(manifest.to(State.PUBLISHED))

    async def removal(self) -> None:
        await delete_tree(self.other, consumers.group_path("g"))


@pytest.fixture
def group() -> Group:
    return Group()


@pytest.mark.parametrize("error", BROKEN)
@pytest.mark.parametrize("broken", [unsent, unanswered])
def test_a_write_whose_answer_was_lost_is_done_once(group: Group, broken: Any, error: type[RegistryError]) -> None:
    """The hold also knows all versions, so its next write is not refused."""
    group.client.attempts = [broken(error)]
    group.run(group.hold.commit(COMMITTED))
    assert group.left() == (COMMITTED, {T0: 9, T1: 3})
    group.run(group.hold.record(MANIFEST.to(State.PUBLISHED)))
    assert group.left() == (MANIFEST.to(State.PUBLISHED), {T0: 9, T1: 3})


def test_the_first_manifest_of_a_group_is_found_written_too() -> None:
    world = World()
    client = Shaky(world.clients[0])
    hold = GroupHold(client, "g", "c")
    world.scheduler.run(hold.join(["t"], 0))
    world.scheduler.run(hold.claim([T0, T1]))
    client.attempts = [unanswered(ConnectionLoss)]
    world.scheduler.run(hold.write_plan(MANIFEST, {T0: 0, T1: 0}))
    world.scheduler.run(hold.commit(COMMITTED))


def test_it_is_sent_until_it_is_answered(group: Group) -> None:
    group.client.attempts = [unsent(ConnectionLoss), unanswered(SessionLost), unsent(ConnectionLoss)]
    group.run(group.hold.commit(COMMITTED))
    assert group.left() == (COMMITTED, {T0: 9, T1: 3})


def test_who_wrote_before_it_could_be_sent_again_has_won(group: Group) -> None:
    async def attempt(send: Send) -> Any:
        await group.foreign_commit()
        raise ConnectionLoss("/path")

    group.client.attempts = [attempt]
    with pytest.raises(ForeignCommit, match="another client has written /consumers/g/offsets/t/1"):
        group.run(group.hold.commit(COMMITTED))
    assert group.left() == (MANIFEST, {T0: 0, T1: 2})


def test_a_commit_after_it_does_not_undo_it(group: Group) -> None:
    """The write was carried out, so its folder must be published."""
    group.client.attempts = [unanswered(ConnectionLoss, group.foreign_commit)]
    group.run(group.hold.commit(COMMITTED))
    assert group.left() == (COMMITTED, {T0: 9, T1: 2})


def test_a_run_that_was_overtaken_meanwhile_is_refused(group: Group) -> None:
    group.client.attempts = [unanswered(SessionLost, group.next_run)]
    with pytest.raises(ForeignCommit, match="another extraction of group g has written the manifest"):
        group.run(group.hold.commit(COMMITTED))


def test_a_group_that_was_removed_meanwhile_is_refused(group: Group) -> None:
    group.client.attempts = [unanswered(SessionLost, group.removal)]
    with pytest.raises(ForeignCommit):
        group.run(group.hold.commit(COMMITTED))


@pytest.mark.parametrize("broken", [unsent, unanswered])
def test_it_gives_up_when_there_is_no_connection_in_time(group: Group, broken: Any) -> None:
    """The next run finds out whether the write was carried out; nothing is half written."""
    group.client.attempts = [broken(ConnectionLoss), unsent(ConnectionTimeout)]
    with pytest.raises(ConnectionTimeout):
        group.run(group.hold.commit(COMMITTED))
    done = broken is unanswered
    assert group.left() == ((COMMITTED, {T0: 9, T1: 3}) if done else (MANIFEST, {T0: 0, T1: 0}))


def test_a_claim_that_others_have_taken_since_judges_nothing(group: Group) -> None:
    """The run was paused, its session ended, and other runs extracted; this run has not read their state yet."""
    slow = GroupHold(group.client, "g", "slow")
    group.run(group.hold.commit(COMMITTED))
    group.run(group.hold.leave())
    group.run(slow.join(["t"], 0))
    assert group.run(slow.claim([T0, T1])) == {T0: 9, T1: 3}
    group.run(group.foreign_commit())
    with pytest.raises(ForeignCommit, match="another client has written /consumers/g/offsets/t/1"):
        group.run(slow.read_manifest())
