"""Which replica is closest to a consumer, and which replicas are eligible."""

from kafka_zk.broker.replica.replica_selector import ReplicaView, rack_aware

LEADER = ReplicaView(0, "a", 10, 0)


def test_the_leader_serves_its_own_rack_and_those_without_one() -> None:
    followers = [ReplicaView(1, "a", 10, 0), ReplicaView(2, "b", 10, 0)]
    assert rack_aware("a", LEADER, followers) is LEADER
    assert rack_aware("", LEADER, followers) is LEADER


def test_a_rack_without_a_replica_is_served_by_the_leader() -> None:
    assert rack_aware("c", LEADER, [ReplicaView(1, "b", 10, 0), ReplicaView(2, None, 10, 0)]) is LEADER


def test_who_has_most_is_chosen_then_who_was_caught_up_last_then_the_highest_id() -> None:
    behind, late, first, second = (
        ReplicaView(4, "b", 9, 0),
        ReplicaView(3, "b", 10, 50),
        ReplicaView(1, "b", 10, 20),
        ReplicaView(2, "b", 10, 20),
    )
    assert rack_aware("b", LEADER, [behind, late]) is late
    assert rack_aware("b", LEADER, [behind, late, first]) is first
    assert rack_aware("b", LEADER, [second, late, first, behind]) is second
