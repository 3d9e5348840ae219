"""Short names instead of member ids."""

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.events import (
    AssignmentCompleted,
    Departure,
    JoinCompleted,
    MemberDeparted,
    MemberJoined,
    RebalancePrepared,
    StaticMemberReturned,
)
from kafka_zk.rebalance.events import DeliveryStopped
from kafka_zk.recorder.timeline.events import FIRST_LOOK, GenerationSeen, SeenMember
from kafka_zk.recorder.timeline.member_names import MemberNames

T0 = TopicPartition("t", 0)


def member_id(name: str, digit: str = "a") -> str:
    return f"{name}-{digit * 8}-{digit * 4}-{digit * 4}-{digit * 4}-{digit * 12}"


ANNA, ANNA_TOO = member_id("anna"), member_id("anna", "b")


def joined(member: str, instance_id: str | None = None) -> Event:
    return MemberJoined(0, "broker-0", "joins", 0, "g", member, True, instance_id, ())


def departed(member: str) -> Event:
    return MemberDeparted(0, "broker-0", "left", 0, "g", member, Departure.LEFT)


def named(names: MemberNames, event: Event) -> str:
    found = names.in_event(event)
    assert isinstance(found, MemberJoined | MemberDeparted)
    return found.member


def test_the_client_id_is_the_name() -> None:
    """Of two members with the same client id, the second one gets a part of its UUID; a client that returns has its
    name again.
    """
    names = MemberNames()
    assert named(names, joined(ANNA)) == "anna"
    assert named(names, joined(ANNA_TOO)) == "anna-bbbb"
    assert named(names, departed(ANNA)) == "anna", "the name changed when another member came"
    assert named(names, joined(ANNA_TOO)) == "anna-bbbb"
    assert named(names, joined(member_id("anna", "c"))) == "anna"


def test_an_id_of_another_make_is_its_own_name() -> None:
    assert named(MemberNames(), joined("worker 7")) == "worker 7"


def test_every_id_in_an_event_is_replaced() -> None:
    """Ids are replaced in lists, in assignments, and in the coordinator's reason, too."""
    names = MemberNames()
    names.in_event(joined(ANNA))
    completed = names.in_event(JoinCompleted(0, "broker-0", "", 0, "g", 1, "range", ANNA, (ANNA, ANNA_TOO)))
    assert isinstance(completed, JoinCompleted)
    assert (completed.leader, completed.members) == ("anna", ("anna", "anna-bbbb"))
    valid = names.in_event(AssignmentCompleted(0, "broker-0", "", 0, "g", 1, {ANNA: (T0,)}))
    assert isinstance(valid, AssignmentCompleted) and valid.assignments == {"anna": (T0,)}
    prepared = RebalancePrepared(0, "broker-0", f"member {ANNA} failed: no heartbeat", 0, "g", 1)
    assert names.in_event(prepared).cause == "member anna failed: no heartbeat"
    assert names.in_event(DeliveryStopped(0, ANNA, "", 0, (T0,))).actor == "anna", "the actor was not replaced"


def test_a_static_member_keeps_its_name() -> None:
    names = MemberNames()
    old, new = member_id("one"), member_id("one", "b")
    assert named(names, joined(old, "one")) == "one"
    returned = names.in_event(StaticMemberReturned(0, "broker-0", "", 0, "g", "one", old, new))
    assert isinstance(returned, StaticMemberReturned) and (returned.old_member, returned.member) == ("one", "one")
    assert named(names, joined(new, "one")) == "one"


def test_who_is_in_no_generation_gives_its_name_back() -> None:
    names = MemberNames()
    seen = GenerationSeen(0, "observer", FIRST_LOOK, 0, -1, "range", "", -1, (SeenMember(ANNA, (), (T0,)),))
    first = names.in_event(seen)
    assert isinstance(first, GenerationSeen) and first.members[0].member == "anna"
    second = names.in_event(
        GenerationSeen(0, "observer", "", 0, 2, "range", ANNA_TOO, 0, (SeenMember(ANNA_TOO, (), (T0,)),))
    )
    assert isinstance(second, GenerationSeen) and (second.members[0].member, second.leader) == ("anna", "anna")
