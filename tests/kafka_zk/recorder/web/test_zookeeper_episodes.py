"""Outages of ZooKeeper and its new leaders, each as one line."""

from kafka_zk.recorder.recording.spans import Move
from kafka_zk.recorder.web.episodes import Episode
from kafka_zk.recorder.web.zookeeper_episodes import zookeeper_episodes

ONE = Move("server", "ZooKeeper zk1:2181", "standalone", None, 1_000, 5_000)
ALL = Move("ensemble", "ZooKeeper", "serves", None, 1_000, 5_000)


def down(move: Move, to_ms: int | None) -> Move:
    return move._replace(holder="", previous=move.holder, from_ms=5_000, to_ms=to_ms)


def test_what_is_there_at_first_and_other_lanes_are_no_news() -> None:
    assert zookeeper_episodes([ONE, ALL, Move("broker", "broker 1", "", "session 0x1", 2_000, None)], 9_000) == []


def test_an_outage_lasts_until_it_serves_again() -> None:
    """The server's return ends the line, without another one."""
    lasts = [ONE, ALL, down(ONE, None), down(ALL, None)]
    assert zookeeper_episodes(lasts, 9_000) == [
        Episode("ZooKeeper", "does not serve (zk1:2181); no election possible", 5_000, 9_000, 0, lasts=True)
    ]
    back = [each._replace(previous="", from_ms=45_000, to_ms=None) for each in (ONE, ALL)]
    over = [ONE, ALL, down(ONE, 45_000), down(ALL, 45_000), *back]
    assert zookeeper_episodes(over, 90_000) == [
        Episode("ZooKeeper", "did not serve (zk1:2181); no election possible", 5_000, 45_000, 0, lasts=False)
    ]


def test_a_server_of_several_and_the_next_leader() -> None:
    led = Move("server", "ZooKeeper zk2:2181", "leader", "follower", 5_400, None)
    [told] = zookeeper_episodes([ONE, ALL, down(ONE, None), led], 9_000)
    assert told.text == "no answer from zk1:2181; zk2:2181 became the leader"
    others = [down(ONE, None)._replace(lane=f"ZooKeeper zk{number}:2181") for number in range(1, 6)]
    [told] = zookeeper_episodes(others, 9_000)
    assert told.text == "no answer from zk1:2181, zk2:2181, zk3:2181 and 2 more"


def test_an_outage_begins_when_the_server_goes_not_when_it_returned_before() -> None:
    """The server had returned one second earlier. The line's time is that of the outage, not of the return."""
    returned = [each._replace(previous="", from_ms=4_000) for each in (ONE, ALL)]
    [told] = zookeeper_episodes([*returned, down(ONE, 6_000), down(ALL, 6_000)], 9_000)
    assert (told.from_ms, told.to_ms) == (5_000, 6_000)
