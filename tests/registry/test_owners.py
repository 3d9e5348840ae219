"""Claims and releases: each partition has one owner, and no former owner can undo its commits."""

from collections.abc import Mapping
from functools import partial
from operator import eq

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.client import Create, RegistryClient, SessionState
from kafka_zk.registry.client.errors import MultiFailed, NoAuth, SessionLost
from kafka_zk.registry.client.pipeline import ensure_paths
from kafka_zk.registry.offsets import NOT_THE_OWNER, Commit, OffsetRegistry, StoredOffset
from kafka_zk.registry.owners import Claim, Claimed, OwnerRegistry, Release, Taken
from kafka_zk.registry.znodes import consumers as znodes
from tests.registry.group_lab import GROUP, GroupLab, claims, create_znode, delete_znode, get_znode, tp
from tests.registry.world import World


def owners(client: RegistryClient) -> OwnerRegistry:
    return OwnerRegistry(client, GROUP)


def offsets(client: RegistryClient) -> OffsetRegistry:
    return OffsetRegistry(client, GROUP)


def plain(outcomes: Mapping[TopicPartition, Claimed | Taken]) -> dict[TopicPartition, Claimed | Taken]:
    """Claims without their zxids."""
    return {tp: each._replace(zxid=0) if isinstance(each, Claimed) else each for tp, each in outcomes.items()}


def test_a_claim_makes_an_ephemeral_and_fences_the_offset(lab: GroupLab) -> None:
    """In a new group, the claim creates the parents and an offset znode without an offset; the znode's version is the
    token."""
    client = lab.clients[0]
    assert lab.run(owners(client).claim(claims("a", 0, 1))) == {tp(0): Claimed(-1, 0), tp(1): Claimed(-1, 0)}
    data, stat = lab.run(get_znode(client, znodes.owner_path(GROUP, "t", 0)))
    assert (data, stat.ephemeral_owner) == (b"a-0", client.session_id)
    assert lab.run(offsets(client).fetch([tp(0), tp(5)])) == {tp(0): StoredOffset(-1, 0)}
    assert lab.run(owners(client).owners()) == {tp(0): "a-0", tp(1): "a-0"}


def test_a_claim_goes_on_where_the_offset_is(lab: GroupLab) -> None:
    """The offsets exist (for example, imported ones), but ``owners`` has no children."""
    client = lab.clients[0]
    lab.run(offsets(client).store({tp(0): 42}))
    claimed = lab.run(owners(client).claim(claims("a", 0)))
    _, stat = lab.run(get_znode(client, znodes.owner_path(GROUP, "t", 0)))
    assert claimed == {tp(0): Claimed(42, 1, stat.czxid)}


def test_what_another_session_holds_is_taken_and_the_rest_is_claimed(lab: GroupLab) -> None:
    first, second = lab.clients[0], lab.clients[1]
    lab.run(owners(first).claim(claims("a", 1, 3)))
    claimed = lab.run(owners(second).claim(claims("b", *range(5))))
    assert claimed == {
        **{tp(partition): Claimed(-1, 0) for partition in (0, 2, 4)},
        **{tp(partition): Taken("a-0") for partition in (1, 3)},
    }
    assert lab.run(owners(first).owners(["t"]))[tp(1)] == "a-0"


def test_hundreds_of_claims_are_batched_and_one_that_is_taken_spoils_no_other(lab: GroupLab) -> None:
    first, second = lab.clients[0], lab.clients[1]
    lab.run(owners(first).claim(claims("a", 150)))
    claimed = lab.run(owners(second).claim(claims("b", *range(250))))
    assert [tp for tp, outcome in claimed.items() if isinstance(outcome, Taken)] == [tp(150)]
    released = lab.run(owners(second).release({tp(number): Release(number, 0) for number in range(250)}))
    assert [tp for tp, done in released.items() if not done] == [tp(150)]
    stored = lab.run(offsets(first).fetch(tp(number) for number in (0, 149, 150, 249)))
    assert [stored[tp(number)].offset for number in (0, 149, 150, 249)] == [0, 149, -1, 249]


def test_claiming_what_this_session_owns_gives_a_new_token_and_the_new_thread(lab: GroupLab) -> None:
    client = lab.clients[0]
    lab.run(owners(client).claim(claims("a", 0, 1)))
    again = [Claim(tp(0), "a-0"), Claim(tp(1), "a-7")]
    assert plain(lab.run(owners(client).claim(again))) == {tp(0): Claimed(-1, 1), tp(1): Claimed(-1, 1)}
    assert lab.run(owners(client).owners()) == {tp(0): "a-0", tp(1): "a-7"}


def test_a_release_commits_and_deletes_in_one_multi(lab: GroupLab) -> None:
    client = lab.clients[0]
    lab.run(owners(client).claim(claims("a", 0, 1, 2)))
    token = lab.run(offsets(client).commit({tp(1): Commit(5, 0)}))[tp(1)]
    assert isinstance(token, int)
    releases = {tp(0): Release(7, 0), tp(1): Release(None, token), tp(9): Release(1, 0)}
    assert lab.run(owners(client).release(releases)) == {tp(0): True, tp(1): True, tp(9): False}
    assert lab.run(owners(client).owners()) == {tp(2): "a-0"}
    stored = lab.run(offsets(client).fetch([tp(0), tp(1), tp(9)]))
    assert stored == {tp(0): StoredOffset(7, 1), tp(1): StoredOffset(5, 1)}


def test_a_zombie_commits_nothing_and_deletes_nothing_of_its_successor(lab: GroupLab) -> None:
    """Complaints 6 and 12: a paused member resumes after its session has ended and the partition has a new owner."""
    zombie, successor = lab.clients[0], lab.clients[1]
    lab.run(owners(zombie).claim(claims("a", 0)))
    lab.expire(zombie)
    assert plain(lab.run(owners(successor).claim(claims("b", 0)))) == {tp(0): Claimed(-1, 1)}
    assert lab.run(offsets(zombie).commit({tp(0): Commit(99, 0)})) == {tp(0): NOT_THE_OWNER}
    assert lab.run(owners(zombie).release({tp(0): Release(99, 0)})) == {tp(0): False}
    assert lab.run(owners(successor).owners()) == {tp(0): "b-0"}
    assert lab.run(offsets(successor).fetch([tp(0)])) == {tp(0): StoredOffset(-1, 1)}


def test_a_zombie_whose_partition_nobody_owns_commits_nothing(lab: GroupLab) -> None:
    zombie = lab.clients[0]
    lab.run(owners(zombie).claim(claims("a", 0)))
    lab.expire(zombie)
    assert lab.run(owners(zombie).release({tp(0): Release(99, 0)})) == {tp(0): False}
    assert lab.run(offsets(zombie).fetch([tp(0)])) == {tp(0): StoredOffset(-1, 0)}


def test_a_release_overrides_who_wrote_without_a_token(lab: GroupLab) -> None:
    """An old consumer or a tool wrote or removed the offset znode while we owned the partition."""
    client, intruder = lab.clients[0], lab.clients[1]
    lab.run(owners(client).claim(claims("a", 0, 1)))
    lab.run(offsets(intruder).store({tp(0): 3}))
    lab.run(delete_znode(intruder, znodes.offset_path(GROUP, "t", 1)))
    released = lab.run(owners(client).release({tp(0): Release(8, 0), tp(1): Release(9, 0)}))
    assert released == {tp(0): True, tp(1): True}
    assert lab.run(offsets(client).fetch([tp(0), tp(1)])) == {tp(0): StoredOffset(8, 2), tp(1): StoredOffset(9, 0)}


def test_a_waiting_member_is_notified_once_when_an_owner_goes(lab: GroupLab) -> None:
    """Complaint 9: the member watches the owner znode and does not poll."""
    holder, waiting = lab.clients[0], lab.clients[1]
    gone: list[int] = []
    assert lab.run(owners(waiting).watch_gone(tp(0), lambda: gone.append(0))) is None
    lab.run(owners(holder).claim(claims("a", 0, 1)))
    assert lab.run(owners(waiting).watch_gone(tp(0), lambda: gone.append(0))) == "a-0"
    assert lab.run(owners(waiting).watch_gone(tp(1), lambda: gone.append(1))) == "a-0"
    lab.run(owners(holder).release({tp(0): Release(None, 0)}))
    lab.run_until(lambda: gone == [0])
    lab.expire(holder)
    lab.run_until(lambda: gone == [0, 1])


def test_a_claim_hears_of_owners_that_go_during_it_and_after_it() -> None:
    """No watch event is lost in between: the claim either takes an owned partition after all or reports it as free."""
    seen = set()
    for seed in range(60):
        world = World(2, seed=seed)
        holder, waiting = world.clients
        world.scheduler.run(owners(holder).claim(claims("a", 0, 1)))
        gone: list[TopicPartition] = []
        claiming = world.scheduler.start(owners(waiting).claim(claims("b", 0, 1, 2), gone.append))
        world.scheduler.run_for(seed / 10)
        world.scheduler.run(owners(holder).release({tp(0): Release(None, 0)}))
        outcome = world.scheduler.run(claiming)
        assert isinstance(outcome[tp(1)], Taken) and isinstance(outcome[tp(2)], Claimed)
        if isinstance(outcome[tp(0)], Taken):
            world.scheduler.run_until(partial(eq, gone, [tp(0)]))
        else:
            world.scheduler.run_for(100)
            assert gone == []
        seen.add(type(outcome[tp(0)]))
    assert seen == {Taken, Claimed}


def test_an_owner_znode_with_invalid_content_is_still_owned(lab: GroupLab) -> None:
    client, other = lab.clients[0], lab.clients[1]
    lab.run(ensure_paths(client, [znodes.owners_path(GROUP, "t"), znodes.offsets_path(GROUP, "t")]))
    lab.run(create_znode(other, Create(znodes.owner_path(GROUP, "t", 0), b"\xff", ephemeral=True)))
    lab.run(create_znode(other, Create(znodes.offset_path(GROUP, "t", 1), b"many")))
    lab.run(create_znode(other, Create(znodes.owner_path(GROUP, "t", 1) + "x", b"?")))
    claimed = lab.run(owners(client).claim(claims("a", 0, 1)))
    assert plain(claimed) == {tp(0): Taken("\ufffd"), tp(1): Claimed(-1, 1)}
    assert lab.run(owners(client).owners()) == {tp(0): "\ufffd", tp(1): "a-0"}


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("after", range(14))
def test_a_connection_lost_at_any_request_of_a_claim_loses_no_claim(after: int, applied: bool) -> None:
    """Complaint 2: successful claims are known after any lost response."""
    world = World(2)
    client = world.clients[0]
    world.scheduler.run(owners(world.clients[1]).claim(claims("b", 1)))
    client.lose_request(after, applied=applied)
    claimed = world.scheduler.run(owners(client).claim(claims("a", 0, 1, 2)))
    assert [type(outcome) for outcome in claimed.values()] == [Claimed, Taken, Claimed]
    committed = world.scheduler.run(
        offsets(client).commit(
            {tp: Commit(7, outcome.token) for tp, outcome in claimed.items() if isinstance(outcome, Claimed)}
        )
    )
    assert all(isinstance(token, int) for token in committed.values())
    assert world.scheduler.run(owners(client).owners()) == {tp(0): "a-0", tp(1): "b-0", tp(2): "a-0"}


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("after", range(3))
def test_a_connection_lost_at_any_request_of_a_release_releases_all_the_same(after: int, applied: bool) -> None:
    world = World(2)
    client = world.clients[0]
    world.scheduler.run(owners(client).claim(claims("a", 0, 1)))
    client.lose_request(after, applied=applied)
    released = world.scheduler.run(owners(client).release({tp(0): Release(5, 0), tp(1): Release(None, 0)}))
    assert released == {tp(0): True, tp(1): True}
    assert world.scheduler.run(owners(client).owners()) == {}
    assert world.scheduler.run(offsets(client).fetch([tp(0)]))[tp(0)].offset == 5


@pytest.mark.parametrize("after_ms", [0, 2, 4, 6])
def test_a_session_that_ends_in_the_middle_of_a_claim_is_told_and_leaves_nothing(after_ms: int) -> None:
    world = World(2, delay_ms=(1.0, 2.0))
    client, other = world.clients
    claiming = world.scheduler.start(owners(client).claim(claims("a", 0, 1)))
    world.scheduler.run_for(after_ms)
    world.zookeeper.expire(client)
    with pytest.raises(SessionLost):
        world.scheduler.run(claiming)
    claimed = world.scheduler.run(owners(other).claim(claims("b", 0, 1)))
    assert all(isinstance(one, Claimed) for one in claimed.values())


@pytest.mark.parametrize("forbidden", range(4))
def test_a_claim_that_cannot_be_made_gives_back_the_others(forbidden: int) -> None:
    """Complaint 2, for every k: the k-th of four claims fails permanently."""
    world = World(2)
    client = world.clients[0]
    path = znodes.owner_path(GROUP, "t", forbidden)

    class Forbidding:
        """A client whose requests for one znode fail."""

        def __getattr__(self, name: str) -> object:
            return getattr(client, name)

        async def multi(self, operations: list[object]) -> object:
            paths = [getattr(operation, "path", "") for operation in operations]
            if path in paths:
                raise MultiFailed(paths.index(path), NoAuth(path))
            return await client.multi(operations)  # type: ignore[arg-type]

    forbidding: RegistryClient = Forbidding()  # type: ignore[assignment]
    with pytest.raises(NoAuth):
        world.scheduler.run(owners(forbidding).claim(claims("a", *range(4))))
    assert world.scheduler.run(owners(client).owners()) == {}


class Fenced:
    """The claims and commits of one random schedule, by the version of the offset znode after each."""

    def __init__(self) -> None:
        self.claims: dict[TopicPartition, dict[int, str]] = {}
        self.commits: dict[TopicPartition, dict[int, tuple[str, int]]] = {}

    def check(self) -> None:
        """Each commit came from the newest claimant before it, and no offset decreased."""
        for partition, commits in self.commits.items():
            claims = self.claims[partition]
            for version, (name, _) in commits.items():
                newest = max(token for token in claims if token < version)
                assert claims[newest] == name, (partition, version)
            in_order = [offset for _, (_, offset) in sorted(commits.items())]
            assert in_order == sorted(in_order), partition


class Actor:
    """A member that claims, commits and releases at random, and trusts every result."""

    def __init__(self, world: World, number: int, fenced: Fenced) -> None:
        self.client = world.clients[number]
        self.name = f"m{number}"
        self.random = world.scheduler.random
        self.fenced = fenced
        self.tokens: dict[TopicPartition, tuple[int, int]] = {}  # partition -> (offset, token)
        self.busy = False
        self.client.add_session_listener(self.changed)

    def changed(self, state: SessionState) -> None:
        if state is SessionState.LOST and self.random.random() < 0.7:
            self.tokens.clear()  # otherwise, it continues as a zombie

    async def act(self) -> None:
        if self.busy:
            return
        self.busy = True
        try:
            await self.random.choice([self.claim, self.commit, self.commit, self.release])()
        except SessionLost:
            pass
        finally:
            self.busy = False

    async def claim(self) -> None:
        wanted = self.random.sample(range(4), self.random.randint(1, 3))
        claimed = await owners(self.client).claim(claims(self.name, *wanted))
        for partition, outcome in claimed.items():
            self.tokens.pop(partition, None)
            if isinstance(outcome, Claimed):
                self.tokens[partition] = (outcome.offset, outcome.token)
                by_token = self.fenced.claims.setdefault(partition, {})
                assert outcome.token not in by_token
                by_token[outcome.token] = self.name

    async def commit(self) -> None:
        commits = {tp: Commit(offset + self.random.randint(0, 5), token) for tp, (offset, token) in self.tokens.items()}
        for partition, outcome in (await offsets(self.client).commit(commits)).items():
            if isinstance(outcome, int):
                self.tokens[partition] = (commits[partition].offset, outcome)
                done = self.fenced.commits.setdefault(partition, {})
                done[outcome] = (self.name, commits[partition].offset)
            else:
                self.tokens.pop(partition, None)

    async def release(self) -> None:
        given = self.random.sample(sorted(self.tokens), len(self.tokens) // 2)
        releases = {tp: Release(self.tokens[tp][0] + 1, self.tokens[tp][1]) for tp in given}
        for partition, done in (await owners(self.client).release(releases)).items():
            del self.tokens[partition]
            if done:
                version = releases[partition].token + 1
                self.fenced.commits.setdefault(partition, {})[version] = (self.name, releases[partition].offset or 0)


def test_random_claims_commits_releases_and_faults_keep_every_fence(campaign_seed: int) -> None:
    """Four members and four partitions with lost responses, expired sessions and zombies; the offset znode's version
    orders all writes."""
    world = World(4, campaign_seed)
    random = world.scheduler.random
    fenced = Fenced()
    actors = [Actor(world, number, fenced) for number in range(4)]
    world.zookeeper.loss_probability = 0.02
    for _ in range(400):
        actor = random.choice(actors)
        world.scheduler.start(actor.act())
        if random.random() < 0.03:
            world.zookeeper.expire(random.choice(actors).client)
        world.scheduler.run_for(random.choice([0, 1, 5, 20, 100]))
    world.zookeeper.loss_probability = 0
    world.scheduler.run_until(
        lambda: all(actor.client.state is SessionState.CONNECTED and not actor.busy for actor in actors)
    )
    fenced.check()
    assert sum(len(commits) for commits in fenced.commits.values()) > 20
    last = world.scheduler.run(owners(actors[0].client).owners())
    sessions = {actor.name: actor.client.session_id for actor in actors}
    for partition, thread in last.items():
        stat = world.zookeeper.tree.exists(znodes.owner_path(GROUP, *partition))
        assert stat is not None
        assert stat.ephemeral_owner == sessions[znodes.consumer_of(thread)]
