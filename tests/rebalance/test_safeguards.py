"""Every safeguard is needed: each case disables one, and the scenario of the complaint that it prevents must then fail.

A scenario that passes without its safeguard does not test it.
"""

from collections.abc import Callable, Iterable, Mapping

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance import effects, inputs
from kafka_zk.rebalance.claims import Claims
from kafka_zk.rebalance.driver import GroupDriver
from kafka_zk.rebalance.hand_over import HandOver
from kafka_zk.rebalance.member import GroupMember
from kafka_zk.rebalance.ownership import Ownership
from kafka_zk.rebalance.stalls import StallGuard
from kafka_zk.registry.client.client import Delete, SessionState
from kafka_zk.registry.client.errors import ConnectionLoss
from kafka_zk.registry.client.watches import Rereader
from kafka_zk.registry.group_topics import GroupTopic
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.owners import Claim, Claimed, OwnerRegistry, Release, Taken
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.sim.scenarios.old_rules import no_lease, no_reread_on_reconnect, no_token
from tests.rebalance import test_complaints as complaints
from tests.rebalance.test_topic_made_again import starts_anew
from tests.rebalance.test_vanished_claims import is_claimed_again, no_commit_without_claim, wakes_up_without_a_claim
from tests.rebalance.world import Group

Scenario = Callable[[Group], None]
TakeOut = Callable[[pytest.MonkeyPatch], None]


def no_owner_check(patch: pytest.MonkeyPatch) -> None:
    """Complaint 12: a release deletes the owner znode even if it belongs to another member."""

    async def release(self: OwnerRegistry, releases: Mapping[TopicPartition, Release]) -> dict[TopicPartition, bool]:
        for tp in releases:
            await self._client.connected()
            await self._client.multi([Delete(znodes.owner_path("g", *tp))])
        return dict.fromkeys(releases, True)

    patch.setattr(OwnerRegistry, "release", release)


def no_settling(patch: pytest.MonkeyPatch) -> None:
    """Complaint 2: a claim whose response was lost counts as failed, and the znodes that it created stay."""
    original = OwnerRegistry._claim

    async def claim(
        self: OwnerRegistry, claims: Iterable[Claim], on_gone: object = None
    ) -> dict[TopicPartition, Claimed | Taken]:
        wanted = {claim.tp: claim.thread_id for claim in claims}
        settled: dict[TopicPartition, Claimed | Taken] = {}
        try:
            await original(self, wanted, settled, None)
        except ConnectionLoss:
            await self._client.connected()
        return {tp: settled.get(tp, Taken("unknown")) for tp in wanted}

    patch.setattr(OwnerRegistry, "claim", claim)


def no_owner_watch(patch: pytest.MonkeyPatch) -> None:
    """Complaint 9: waiting members are not notified when an owner releases a partition."""
    patch.setattr(Claims, "_owner_gone", lambda self, tp: None)


def no_second_registration(patch: pytest.MonkeyPatch) -> None:
    """Complaint 5: a member registers once, in its first session."""
    step = GroupMember.step

    def only_once(self: GroupMember, event: inputs.Input, now_ms: float) -> list[effects.Effect]:
        wanted = step(self, event, now_ms)
        if getattr(self, "registered_once", False):
            wanted = [effect for effect in wanted if not isinstance(effect, effects.Register)]
        if isinstance(event, inputs.Registered):
            self.registered_once = True  # type: ignore[attr-defined]
        return wanted

    patch.setattr(GroupMember, "step", only_once)


def suspended_is_lost(patch: pytest.MonkeyPatch) -> None:
    """Complaint 11: a lost connection counts as the end of the session."""
    changed = GroupDriver._session_changed

    def panicking(self: GroupDriver, state: SessionState) -> None:
        changed(self, SessionState.LOST if state is SessionState.SUSPENDED else state)

    patch.setattr(GroupDriver, "_session_changed", panicking)


def no_coalescing(patch: pytest.MonkeyPatch) -> None:
    """Complaint 13: a watch that fires during a read does not cause another read."""
    start = Rereader._start

    def deaf(self: Rereader, cause: str) -> None:
        if not self._reading:
            start(self, cause)

    patch.setattr(Rereader, "_start", deaf)


def no_claim_watch(patch: pytest.MonkeyPatch) -> None:
    """An owner is not notified when its owner znode is removed."""

    async def watch(self: Ownership, *_: object) -> frozenset[TopicPartition]:
        return frozenset()

    patch.setattr(Ownership, "watch", watch)


def no_claim_check(patch: pytest.MonkeyPatch) -> None:
    """A commit checks only its token, not the claim."""
    original = OffsetRegistry._write_one
    patch.setattr(OffsetRegistry, "_write_one", lambda *arguments: original(*arguments)[-1:])


def no_stall_guard(patch: pytest.MonkeyPatch) -> None:
    """A member that was paused continues immediately if its lease is still valid."""
    patch.setattr(StallGuard, "start", lambda self: None)


def no_topic_check(patch: pytest.MonkeyPatch) -> None:
    """A claim uses the stored offset, even if it belongs to an earlier topic of the same name."""
    patch.setattr(GroupTopic, "outdates", lambda self, offset: False)


def no_topic_watch(patch: pytest.MonkeyPatch) -> None:
    """An owner continues after its topic was replaced by another one of the same name."""
    patch.setattr(HandOver, "topics_seen", lambda self, czxids: None)


def no_check_for_a_deleted_topic(patch: pytest.MonkeyPatch) -> None:
    """A release commits even if the topic was deleted."""
    patch.setattr(HandOver, "_to_commit", lambda self, partition, offset: offset)


def recreated_immediately(group: Group) -> None:
    starts_anew(group, "cooperative-sticky", None)


def nothing_unread_at_any_request(group: Group) -> None:
    """Complaint 2, with the response to each request of the start lost in turn."""
    for after in range(40):
        fresh = Group({"t": 9}, after)
        fresh.join("a", ["cooperative-sticky"]).client.lose_request(after, applied=True)
        complaints.nothing_is_owned_and_unread(fresh)


CASES: list[tuple[TakeOut, Scenario, int]] = [
    (no_settling, nothing_unread_at_any_request, 1),
    (no_second_registration, complaints.registers_again, 6),
    (no_lease, complaints.zombie_is_harmless, 4),
    (no_lease, complaints.silently_cut_off, 4),
    (no_token, complaints.zombie_is_harmless, 4),
    (no_owner_watch, complaints.claim_follows_the_release, 1),
    (suspended_is_lost, complaints.blip, 4),
    (no_owner_check, complaints.others_znodes_stay, 4),
    (no_coalescing, complaints.changes_are_seen, 6),
    (no_reread_on_reconnect, complaints.change_during_a_cut, 6),
    (no_claim_watch, is_claimed_again, 4),
    (no_claim_check, no_commit_without_claim, 2),
    (no_stall_guard, wakes_up_without_a_claim, 4),
    (no_topic_check, starts_anew, 4),
    (no_topic_watch, recreated_immediately, 4),
    (no_check_for_a_deleted_topic, recreated_immediately, 4),
]


@pytest.mark.parametrize(("take_out", "scenario", "partitions"), CASES, ids=[case[0].__name__ for case in CASES])
def test_without_its_safeguard_a_scenario_fails(
    take_out: TakeOut, scenario: Scenario, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_out(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(3):
            scenario(Group({"t": partitions}, seed))
