"""Slow motion has the events of one episode, each after its cause, with the process that acts and the one that it
informs.
"""

from typing import Any

import pytest

from kafka_zk.base.events import Event
from kafka_zk.broker.controller.events import PartitionsMoved, RequestSent
from kafka_zk.broker.controller.states import PartitionState
from kafka_zk.broker.security.events import Denied
from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.entries import Entry
from kafka_zk.recorder.timeline.event_codec import encode
from kafka_zk.recorder.web import slow_motion as module
from kafka_zk.recorder.web.slow_motion import AROUND_MS, OTHERS, Play, group_of, involved, slow_motion
from kafka_zk.recorder.zookeeper_health.events import ServerStateChanged
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import WatchFired


def change(seq: int, time_ms: int, path: str = "/a", actor: str = "broker-1", cause: int | None = None) -> Entry:
    document = {"path": path, "before": None, "after": ["", 0, seq, seq, time_ms, 0]}
    return Entry(seq, time_ms, actor, "created", path, seq, 7, cause, True, document)


def reported(seq: int, event: Event, cause: int | None = None, **place: int) -> Entry:
    document: Document = {**encode(event), **place}
    path = getattr(event, "path", "")
    return Entry(seq, event.time_ms, event.actor, type(event).__name__, path, 0, 0, cause, True, document)


def fired(seq: int, time_ms: int, cause: int | None = None, actor: str = "broker-2", **place: int) -> Entry:
    return reported(seq, WatchFired(time_ms, actor, "", 0, "/a", EventType.CREATED), cause, **place)


def sent(seq: int, time_ms: int, to: int, cause: int | None = None) -> Entry:
    return reported(seq, RequestSent(time_ms, "controller-1", "", 0, to, "LEADER_AND_ISR"), cause)


def seqs(play: Play) -> list[int]:
    return [each.seq for each in play.steps]


def ends(play: Play) -> list[tuple[str, str]]:
    return [(play.lanes[each.source], play.lanes[each.target]) for each in play.steps]


def test_an_effect_follows_its_cause_whatever_the_clocks_say() -> None:
    """ZooKeeper's log has no microseconds, and a broker's clock may be slow."""
    early = [change(1, 1_000), fired(2, 990, cause=1), sent(3, 995, 3)]
    assert seqs(slow_motion(early)) == [3, 1, 2]
    assert [each.after for each in slow_motion(early).steps] == ["+0 ms", "+5 ms", "-5 ms"]


def test_a_likely_cause_does_not_overrule_the_clocks() -> None:
    """A late report may be attributed to a change that came after it."""
    told = [change(1, 1_000), fired(2, 990, cause=1)._replace(certain=False)]
    assert seqs(slow_motion(told)) == [2, 1]


def test_transactions_are_in_zxid_order_and_a_process_keeps_its_own() -> None:
    """The order holds even if a clock was set back, or if traces arrived later than ZooKeeper's changes."""
    told = [change(1, 1_005), change(2, 1_000), fired(3, 1_002), fired(4, 1_001), fired(5, 1_003, actor="broker-3")]
    assert seqs(slow_motion(told)) == [3, 4, 5, 1, 2]
    assert seqs(slow_motion(reversed(told))) == [3, 4, 5, 1, 2]


def test_times_have_microseconds_where_both_are_known() -> None:
    play = slow_motion([fired(1, 1_000, microsecond=250), fired(2, 1_002, microsecond=5), fired(3, 1_003)])
    assert [each.after for each in play.steps] == ["+0.000 ms", "+1.755 ms", "+3 ms"]
    assert [each.microsecond for each in play.steps] == [250, 5, None]


def test_brokers_stand_before_zookeeper_and_clients_after_it() -> None:
    play = slow_motion([change(1, 1, actor="g_anna"), change(2, 2, actor="broker-10"), sent(3, 3, 2), sent(4, 4, 10)])
    assert play.lanes == ("broker-1", "broker-2", "broker-10", "ZooKeeper", "g_anna")
    assert ends(play) == [
        ("g_anna", "ZooKeeper"), ("broker-10", "ZooKeeper"), ("broker-1", "broker-2"), ("broker-1", "broker-10")
    ]  # fmt: skip


def test_a_large_play_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_STEPS", 8)
    monkeypatch.setattr(module, "MOST_LANES", 4)
    play = slow_motion(sent(number, number, to=number) for number in range(1, 21))
    assert (len(play.steps), play.is_whole) == (8, False)
    assert play.lanes == ("broker-1", "broker-2", "broker-3", OTHERS)
    assert {pair for pair in ends(play)[4:]} == {("broker-1", OTHERS)}


def test_what_only_repeats_an_event_or_cannot_be_read_is_left_out() -> None:
    moved = reported(1, PartitionsMoved(1, "controller-1", "", 0, (), PartitionState.ONLINE))
    unknown = moved._replace(seq=2, document={"event": "Unheard"})
    assert slow_motion([moved, unknown]) == ((), (), True)


def test_a_failover_has_no_group_and_a_rebalance_nothing_else() -> None:
    told = [
        change(1, 10, "/controller"),
        change(2, 11, "/consumers/g/ids/g_anna", actor="g_anna"),
        fired(3, 12, actor="g_anna"),
        fired(4, 13, actor="h_carl"),
        change(5, 14, "/consumers/h/ids/h_carl", actor="h_carl"),
        change(6, 15, "/consumers/g2/owners/t/0", actor="g_2_bert"),
        change(7, 16, "/x")._replace(document={**change(7, 16).document, "group_id": "g"}),
    ]
    found: dict[str, Any] = {
        subject: [each.seq for each in involved(told, subject, 20, {"g", "g2", "h"})]
        for subject in ("cluster", "group g", "group h", "group of the broker g", "ZooKeeper")
    }
    assert found == {
        "cluster": [1], "group g": [2, 3], "group h": [4, 5], "group of the broker g": [7], "ZooKeeper": []
    }  # fmt: skip


def test_reports_about_clients_and_members_with_odd_names_are_no_part_of_a_failover() -> None:
    denied = Denied(10, "broker-1", "no ACL", 0, "User:x", "h", "READ", "t", "FETCH", 1)
    down = ServerStateChanged(12, "ZooKeeper zk1:2181", "", 0, "down", "serving", 0)
    told = [reported(1, denied), fired(2, 11, actor="ZooKeeper_anna"), reported(3, down)]
    for subject in ("cluster", "ZooKeeper"):
        assert [each.seq for each in involved(told, subject, 20, {"ZooKeeper"})] == [3]


def test_it_ends_with_the_effects_of_its_events() -> None:
    """Later events with another cause do not belong to it."""
    told = [change(1, 10), fired(2, 11, cause=1), sent(3, 12, 2, cause=2), change(4, 13), fired(5, 14, cause=4)]
    assert [each.seq for each in involved(told, "cluster", 10, ())] == [1, 2, 3]
    assert AROUND_MS < 2_000, "two seconds later, an episode is not another play"


def test_the_group_of_an_episode() -> None:
    assert [group_of(each) for each in ("group of x", "group of the broker g", "cluster")] == ["of x", "g", ""]
