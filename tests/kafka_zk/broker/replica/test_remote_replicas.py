"""A leader's view of its followers' fetches: which are caught up, which may join, and how far all of them are."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_zk.broker.replica.isr_state import Committed, Pending
from kafka_zk.broker.replica.remote_replica import RemoteReplica
from kafka_zk.broker.replica.remote_replicas import InSyncRule, RemoteReplicas

US, A, B = 1, 2, 3
LAG_MS = 1_000


class Leader:
    """A leader whose log is a number, and its decisions."""

    def __init__(self, isr: tuple[int, ...] = (US, A, B), end: int = 10) -> None:
        self.dead: set[int] = set()
        self.remotes = RemoteReplicas(US, InSyncRule(LAG_MS, lambda broker: broker not in self.dead))
        self.end, self.now_ms = end, 5
        self.remotes.begin_epoch([US, A, B], isr, end, self.now_ms)

    def fetch(self, broker: int, offset: int) -> None:
        self.remotes.followers[broker].record_fetch(offset, 0, self.now_ms, self.end, 7)

    @property
    def mark(self) -> int:
        return self.remotes.high_watermark(self.end, self.end, self.now_ms)

    @property
    def lagging(self) -> list[int]:
        return self.remotes.out_of_sync(self.end, self.now_ms)


def test_the_high_watermark_is_what_all_in_sync_have() -> None:
    """The high watermark is unknown until all members have fetched in this term."""
    leader = Leader()
    assert leader.mark == -1
    leader.fetch(A, 8)
    assert leader.mark == -1
    leader.fetch(B, 6)
    assert leader.mark == 6
    leader.fetch(B, 10)
    assert leader.mark == 8


def test_a_member_lags_when_it_was_not_caught_up_for_too_long() -> None:
    """Without a fetch the time counts from the election. A member that has the whole log does not lag, however old its
    last fetch.
    """
    leader = Leader()
    leader.fetch(A, 10)
    leader.now_ms += LAG_MS
    assert leader.lagging == []
    leader.now_ms += 1
    assert leader.lagging == [B]
    leader.end += 1
    assert leader.lagging == [A, B]


def test_a_follower_behind_a_steady_stream_is_caught_up() -> None:
    """Each fetch begins at the log end of the previous fetch, while the log end advances."""
    leader = Leader()
    for _ in range(5):
        leader.fetch(A, leader.end - 1)
        leader.end += 1
        leader.now_ms += LAG_MS // 2
    assert leader.lagging == [B]
    leader.now_ms += LAG_MS
    assert leader.lagging == [A, B]


def test_nobody_lags_while_a_change_is_pending() -> None:
    leader = Leader()
    leader.now_ms += LAG_MS + 1
    assert leader.lagging == [A, B]
    assert isinstance(leader.remotes.state, Committed)
    leader.remotes.state = leader.remotes.state.shrink([A])
    assert leader.lagging == []


def test_who_joins_has_what_is_committed_and_fetched_in_this_leader_epoch() -> None:
    """Records before the epoch may be committed although the leader does not know it yet."""
    leader = Leader(isr=(US,), end=10)
    leader.fetch(A, 9)
    assert not leader.remotes.may_join(A, high_watermark=4)  # the epoch begins at 10
    leader.fetch(A, 10)
    leader.end = 20
    assert leader.remotes.may_join(A, high_watermark=10)
    assert not leader.remotes.may_join(A, high_watermark=11)
    leader.dead.add(A)
    assert not leader.remotes.may_join(A, high_watermark=10)


def test_nobody_joins_twice_or_beside_another_change() -> None:
    leader = Leader(isr=(US, A))
    leader.fetch(A, 10)
    leader.fetch(B, 10)
    assert (leader.remotes.may_join(A, 10), leader.remotes.may_join(B, 10)) == (False, True)
    leader.remotes.state = Committed((US, A)).expand(B)
    assert not leader.remotes.may_join(B, 10)


def test_a_leader_alone_waits_for_whom_is_about_to_join() -> None:
    """If the leader advanced alone, its high watermark would stay ahead of a follower that fetches all the time."""
    leader = Leader(isr=(US,))
    leader.fetch(A, 10)
    leader.end = 12
    assert leader.mark == 10
    leader.dead.add(A)
    assert leader.mark == 12
    leader.dead.clear()
    leader.now_ms += LAG_MS + 1
    assert leader.mark == 12


def test_members_that_are_not_assigned_do_not_count() -> None:
    """During a reassignment the ISR contains such members for a moment; they do not fetch."""
    leader = Leader(isr=(US, A, 9))
    leader.fetch(A, 10)
    leader.fetch(B, 10)
    assert leader.mark == 10


@pytest.mark.parametrize("isr", [(US, A, B), (US,)])
def test_a_leader_elected_again_keeps_what_it_knows(isr: tuple[int, ...]) -> None:
    """The leader forgets, however, that a replica outside the ISR was caught up."""
    leader = Leader()
    leader.fetch(A, 10)
    leader.fetch(B, 4)
    leader.end = 12
    leader.remotes.begin_epoch([US, A, B], isr, leader.end, leader.now_ms)
    assert [follower.log_end_offset for follower in leader.remotes.followers.values()] == [10, 4]
    assert leader.mark == (4 if A in isr else 12)


def test_a_follower_that_never_fetched_is_not_caught_up() -> None:
    assert not RemoteReplica(A).is_caught_up(10, 0, LAG_MS)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("fetch"), st.sampled_from([A, B])),
        st.tuples(st.just("tick"), st.sampled_from([1, LAG_MS + 1])),
        st.tuples(st.just("shrink"), st.none()),
        st.tuples(st.just("answer"), st.sampled_from(["written", "not written", "no response"])),
    ),
    min_size=10,
    max_size=60,
)


@settings(max_examples=300)
@given(STEPS)
def test_no_order_of_events_shows_what_a_member_of_the_old_or_new_isr_does_not_have(
    steps: list[tuple[str, object]],
) -> None:
    """The controller may have written the old ISR or the new one: every member of either has all records below the high
    watermark. The high watermark never goes back.
    """
    leader = Leader()
    has = {A: 0, B: 0}
    mark = 0
    written = leader.remotes.state.isr
    for step, argument in steps:
        state = leader.remotes.state
        if step == "append":
            assert isinstance(argument, int)
            leader.end += argument
        elif step == "tick":
            assert isinstance(argument, int)
            leader.now_ms += argument
        elif step == "fetch":
            assert isinstance(argument, int)
            leader.fetch(argument, has[argument])
            if leader.remotes.may_join(argument, mark):
                leader.remotes.state = Committed(state.isr).expand(argument)
            has[argument] = leader.end  # the follower gets everything, but the leader learns it with the next fetch
        elif step == "shrink" and leader.lagging:
            leader.remotes.state = Committed(state.isr).shrink(leader.lagging)
        elif step == "answer" and isinstance(state, Pending):
            if argument == "no response":  # it may be written or not; the leader does not know
                written = state.proposed
            else:
                written = state.proposed if argument == "written" else state.isr
                leader.remotes.state = Committed(written)
        mark = max(mark, leader.mark)
        for member in {*written, *leader.remotes.state.maximal_isr} - {US}:
            assert mark <= has[member]
            assert mark <= max(0, leader.remotes.followers[member].log_end_offset)
