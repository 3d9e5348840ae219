"""The offset registry: commits with a token, writes by clients without a token, and stores by tools."""

import pytest

from kafka_zk.registry.client.client import RegistryClient, SetData
from kafka_zk.registry.client.errors import SessionLost
from kafka_zk.registry.offsets import NO_VERSION, NOT_THE_OWNER, Commit, OffsetRegistry, StoredOffset
from kafka_zk.registry.owners import OwnerRegistry, Release
from kafka_zk.registry.znodes import consumers as znodes
from tests.registry.group_lab import GROUP, GroupLab, claims, delete_znode, set_znode, tp
from tests.registry.world import World


def owners(client: RegistryClient) -> OwnerRegistry:
    return OwnerRegistry(client, GROUP)


def offsets(client: RegistryClient) -> OffsetRegistry:
    return OffsetRegistry(client, GROUP)


def test_each_commit_returns_the_token_of_the_next(lab: GroupLab) -> None:
    client = lab.clients[0]
    lab.run(owners(client).claim(claims("a", 0, 1)))
    assert lab.run(offsets(client).commit({tp(0): Commit(10, 0), tp(1): Commit(20, 0)})) == {tp(0): 1, tp(1): 1}
    assert lab.run(offsets(client).commit({tp(0): Commit(11, 1)})) == {tp(0): 2}
    assert lab.run(offsets(client).fetch([tp(0), tp(1)])) == {tp(0): StoredOffset(11, 2), tp(1): StoredOffset(20, 1)}


def test_a_commit_without_ownership_is_refused(lab: GroupLab) -> None:
    owner, other = lab.clients[0], lab.clients[1]
    lab.run(owners(owner).claim(claims("a", 0)))
    lab.run(offsets(owner).commit({tp(0): Commit(10, 0)}))
    commits = {tp(0): Commit(5, 0), tp(1): Commit(5, 0)}
    assert lab.run(offsets(other).commit(commits)) == {tp(0): NOT_THE_OWNER, tp(1): NOT_THE_OWNER}
    assert lab.run(offsets(owner).fetch([tp(0), tp(1)])) == {tp(0): StoredOffset(10, 1)}


def test_a_commit_after_the_claim_was_removed_is_refused(lab: GroupLab) -> None:
    """The claim was removed by hand and the partition was not claimed again, so the token has not changed."""
    owner, other = lab.clients[0], lab.clients[1]
    lab.run(owners(owner).claim(claims("a", 0, 1)))
    lab.run(delete_znode(other, znodes.owner_path(GROUP, "t", 0)))
    assert lab.run(offsets(owner).commit({tp(0): Commit(10, 0), tp(1): Commit(20, 0)})) == {
        tp(0): NOT_THE_OWNER,
        tp(1): 1,
    }
    assert lab.run(offsets(owner).fetch([tp(0), tp(1)])) == {tp(0): StoredOffset(-1, 0), tp(1): StoredOffset(20, 1)}


def test_the_owner_takes_over_from_who_writes_without_a_token(lab: GroupLab) -> None:
    """An old consumer that lost the partition commits without checking a version, or the znode was removed."""
    owner, old = lab.clients[0], lab.clients[1]
    lab.run(owners(owner).claim(claims("a", 0, 1)))
    lab.run(offsets(old).store({tp(0): 3}))
    lab.run(delete_znode(old, znodes.offsets_path(GROUP, "t") + "/1"))
    assert lab.run(offsets(owner).commit({tp(0): Commit(10, 0), tp(1): Commit(20, 0)})) == {tp(0): 2, tp(1): 0}
    assert lab.run(offsets(owner).fetch([tp(0)])) == {tp(0): StoredOffset(10, 2)}


def test_a_token_of_an_earlier_ownership_of_the_same_session_is_refused(lab: GroupLab) -> None:
    """The session released the partition, another session owned it, and the first session owns it again."""
    client, other = lab.clients[0], lab.clients[1]
    lab.run(owners(client).claim(claims("a", 0)))
    lab.run(owners(client).release({tp(0): Release(5, 0)}))
    lab.run(owners(other).claim(claims("b", 0)))
    lab.run(owners(other).release({tp(0): Release(50, 2)}))
    lab.run(owners(client).claim(claims("a", 0)))
    assert lab.run(offsets(client).commit({tp(0): Commit(6, 0)})) == {tp(0): NOT_THE_OWNER}
    assert lab.run(offsets(client).fetch([tp(0)])) == {tp(0): StoredOffset(50, 4)}


def test_storing_makes_what_is_not_there(lab: GroupLab) -> None:
    client = lab.clients[0]
    lab.run(offsets(client).store({tp(0): 1, tp(2, "u"): 2**40}))
    lab.run(offsets(client).store({tp(0): 7, tp(1): 8}))
    assert lab.run(offsets(client).partitions()) == [tp(0), tp(1), tp(2, "u")]
    assert lab.run(offsets(client).fetch([tp(0), tp(2, "u")])) == {
        tp(0): StoredOffset(7, 1),
        tp(2, "u"): StoredOffset(2**40, 0),
    }


def test_a_store_does_not_overwrite_concurrent_writes(lab: GroupLab) -> None:
    """A store overwrites neither a new value nor a znode that was created after the versions were read."""
    client = lab.clients[0]
    registry = offsets(client)
    new = {tp(0): StoredOffset(5, NO_VERSION), tp(1): StoredOffset(6, NO_VERSION)}
    assert lab.run(registry.store_unchanged(new)) == []
    read = lab.run(registry.fetch([tp(0), tp(1)]))
    lab.run(registry.store({tp(0): 50}))
    again = {key: StoredOffset(7, stored.version) for key, stored in read.items()}
    assert lab.run(registry.store_unchanged({**again, tp(2): StoredOffset(8, 3)})) == [tp(0), tp(2)]
    assert lab.run(registry.store_unchanged({tp(1): StoredOffset(9, NO_VERSION)})) == [tp(1)]
    assert {key: each.offset for key, each in lab.run(registry.fetch([tp(0), tp(1), tp(2)])).items()} == {
        tp(0): 50, tp(1): 7
    }  # fmt: skip


def test_an_invalid_offset_counts_as_missing(lab: GroupLab) -> None:
    client = lab.clients[0]
    lab.run(offsets(client).store({tp(0): 1, tp(1): 1}))
    lab.run(set_znode(client, SetData(znodes.offset_path(GROUP, "t", 0), b"many")))
    lab.run(set_znode(client, SetData(znodes.offset_path(GROUP, "t", 1), b"-5")))
    assert lab.run(offsets(client).fetch([tp(0), tp(1)])) == {tp(0): StoredOffset(-1, 1), tp(1): StoredOffset(-1, 1)}


@pytest.mark.parametrize(("after", "intruded"), [(0, False), *((after, True) for after in range(5))])
@pytest.mark.parametrize("applied", [True, False])
def test_a_commit_whose_answer_is_lost_is_found_out(after: int, applied: bool, intruded: bool) -> None:
    """Each partition ends with the committed offset and a token that the next commit can use."""
    world = World(2)
    client = world.clients[0]
    world.scheduler.run(owners(client).claim(claims("a", 0, 1, 2)))
    if intruded:
        world.scheduler.run(offsets(world.clients[1]).store({tp(1): 3}))
    client.lose_request(after, applied=applied)
    commits = {tp(partition): Commit(10 + partition, 0) for partition in range(3)}
    tokens = world.scheduler.run(offsets(client).commit(commits))
    stored = world.scheduler.run(offsets(client).fetch(tokens))
    assert stored == {tp(number): (10 + number, tokens[tp(number)]) for number in range(3)}
    again = {partition: Commit(20, token) for partition, token in tokens.items() if isinstance(token, int)}
    assert all(isinstance(token, int) for token in world.scheduler.run(offsets(client).commit(again)).values())


def test_a_session_that_ends_during_a_commit_is_told() -> None:
    world = World(1)
    client = world.clients[0]
    world.scheduler.run(owners(client).claim(claims("a", 0)))
    client.cut()
    committing = world.scheduler.start(offsets(client).commit({tp(0): Commit(1, 0)}))
    world.zookeeper.expire(client)
    client.heal()
    with pytest.raises(SessionLost):
        world.scheduler.run(committing)


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("after", range(8))
def test_a_store_continues_after_a_lost_connection(after: int, applied: bool) -> None:
    world = World(1)
    client = world.clients[0]
    client.lose_request(after, applied=applied)
    world.scheduler.run(offsets(client).store({tp(0): 4, tp(1): 5}))
    stored = world.scheduler.run(offsets(client).fetch([tp(0), tp(1)]))
    assert [stored[tp(number)].offset for number in (0, 1)] == [4, 5]
