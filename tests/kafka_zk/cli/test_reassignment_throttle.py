"""Which replicas a throttled reassignment throttles."""

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.reassignment_throttle import FOLLOWERS, LEADERS, throttled_replicas
from kafka_zk.clients.admin.admin import Reassignment

T0, T1, OTHER = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def test_present_replicas_are_throttled_as_leaders_and_new_ones_as_followers() -> None:
    lists, brokers = throttled_replicas({T0: [2, 3], T1: [1, 4]}, {T0: [1, 2], T1: [1]}, {})
    assert lists == {"t": {LEADERS: "0:1,0:2,1:1", FOLLOWERS: "0:3,1:4"}}
    assert brokers == [1, 2, 3, 4]


def test_moves_under_way_stay_throttled() -> None:
    """The topics' lists are replaced; a replica that is being added is not throttled as a leader."""
    moving = {OTHER: Reassignment((5, 6), (5,), (6,)), T0: Reassignment((3, 1), (3,), (1,))}
    lists, brokers = throttled_replicas({T0: [2]}, {T0: [3, 1]}, moving)
    assert lists == {"t": {LEADERS: "0:1", FOLLOWERS: "0:2"}, "u": {LEADERS: "0:6", FOLLOWERS: "0:5"}}
    assert brokers == [1, 2, 5, 6]
