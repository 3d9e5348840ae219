"""The folded lanes, and the silences in them."""

import pytest

from kafka_zk.recorder.recording.spans import LaneGroup, Span
from kafka_zk.recorder.web.lanes import Silence, is_folded, silences, with_outages


@pytest.mark.parametrize(
    ("stem", "count", "folded"),
    [("t-", 12, False), ("t-", 13, True), ("__t-", 1, True), ("g: __t-", 1, True), ("__g: t-", 1, False)],
)
def test_large_and_internal_topics_are_folded_until_somebody_opens_them(stem: str, count: int, folded: bool) -> None:
    group = LaneGroup("owner", stem, count, 0, None)
    assert is_folded(group, (), ()) == folded
    assert not is_folded(group, (f"owner {stem}",), ())
    assert is_folded(group, (), (f"owner {stem}",))


def test_silence_is_counted_by_time() -> None:
    assert silences([(10, 20), (15, 30), (40, None)]) == [
        Silence(10, 15, 1), Silence(15, 20, 2), Silence(20, 30, 1), Silence(40, None, 1)
    ]  # fmt: skip
    assert silences([(10, None), (12, None)]) == [Silence(10, 12, 1), Silence(12, None, 2)]
    assert silences([]) == []


def test_a_leader_without_a_session_is_none_from_the_sessions_end_to_the_controllers_next_write() -> None:
    """The lengths come from ZooKeeper's transactions, not from the times of polls."""
    brokers = [
        Span("broker", "broker 2", holder, "", from_ms, to_ms)
        for holder, from_ms, to_ms in (("session 0x1", 0, 4_500), ("", 4_500, 9_000), ("session 0x2", 9_000, None))
    ]
    spans = [
        Span("leader", "t-0", "broker 2", "2,0", 100, 7_100), Span("leader", "t-0", "broker 0", "0", 7_100, None),
        Span("leader", "t-1", "broker 2", "2", 100, None), Span("owner", "g: t-0", "broker 2", "", 100, None),
    ]  # fmt: skip
    told = [(each.lane, each.holder, each.from_ms, each.to_ms) for each in with_outages(spans, brokers)]
    assert told == [
        ("t-0", "broker 2", 100, 4_500), ("t-0", "", 4_500, 7_100), ("t-0", "broker 0", 7_100, None),
        ("t-1", "broker 2", 100, 4_500), ("t-1", "", 4_500, 9_000), ("t-1", "broker 2", 9_000, None),
        ("g: t-0", "broker 2", 100, None),
    ]  # fmt: skip
