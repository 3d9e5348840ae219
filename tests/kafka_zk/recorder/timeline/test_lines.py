"""A timeline in words: one line per rebalance, or every step; and the picture."""

import re
from collections.abc import Iterator

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.events import (
    DeliveryStarted,
    DeliveryStopped,
    MemberLeft,
    MemberRegistered,
    RebalanceFinished,
    RebalanceStarted,
)
from kafka_zk.recorder.timeline.deliveries import Change
from kafka_zk.recorder.timeline.events import FIRST_LOOK, MemberGone, MemberSeen, OwnersSeen
from kafka_zk.recorder.timeline.lines import RebalanceLines, StepLines
from kafka_zk.recorder.timeline.names import listed, listed_offsets
from kafka_zk.recorder.timeline.picture import letters, picture
from kafka_zk.recorder.timeline.timeline import Timeline
from kafka_zk.recorder.timeline.trace_file import Traced

T = [TopicPartition("t", number) for number in range(30)]
ANNA, BEN = "g_anna", "g_ben"


def round_of(
    time_ms: int, member: str, gives: tuple[TopicPartition, ...], gets: tuple[TopicPartition, ...]
) -> Iterator[Event]:
    yield RebalanceStarted(time_ms, member, "started", 0, "range", 0)
    if gives:
        yield DeliveryStopped(time_ms, member, "", 0, gives)
    if gets:
        yield DeliveryStarted(time_ms + 20, member, "", 0, dict.fromkeys(gets, 0))
    yield RebalanceFinished(time_ms + 20, member, "", 0, 20, (), (), ())


def told(*events: Event) -> list[str]:
    """The lines without the time of day."""
    timeline = Timeline()
    for number, event in enumerate(events):
        timeline.add(Traced(event, None if event.actor == "observer" else 10 + number))
    return [re.sub(r"^\d\d:\d\d:\d\d  ", "", line) for line in RebalanceLines("g", timeline).lines()]


FIRST = (MemberRegistered(0, ANNA, "", 0, 1), *round_of(10, ANNA, (), (T[0], T[1], T[2])))
SECOND = (
    MemberRegistered(5_000, BEN, "", 0, 2),
    *round_of(5_010, ANNA, (T[0], T[1], T[2]), (T[0], T[1])),
    *round_of(5_020, BEN, (), (T[2],)),
)


def test_one_line_per_rebalance() -> None:
    """A line has the reason, the members, the moved partitions, the length of the silence, and the cost."""
    assert told(*FIRST, *SECOND, MemberGone(9_000, "observer", "", 0, BEN), *round_of(9_001, ANNA, (), (T[2],))) == [
        "anna joined: anna starts t-0,1,2; 13 requests",
        "ben joined: anna→ben t-2; 2 stopped and went on; silent at most 30 ms; 26 requests",
        "the session of ben ended: ben→anna t-2; 2 never stopped; silent 21 ms; 7 requests",
    ]


def test_members_that_change_nothing_are_told_too() -> None:
    """A member without partitions joins, and all members leave."""
    assert told(*FIRST, MemberRegistered(2_000, BEN, "", 0, 2), MemberLeft(4_000, BEN, "", 0))[1:] == [
        "ben joined: nothing moves; 3 never stopped; 14 requests",
        "ben left: nothing moves; 3 never stopped; 1 request",
    ]
    assert told(*FIRST, *round_of(2_000, ANNA, (T[0], T[1], T[2]), ()), MemberLeft(2_030, ANNA, "", 0))[1:] == [
        "anna left: no member reads t-0,1,2; 4 requests"
    ]


def test_many_partitions_are_counted() -> None:
    """A count of the partitions keeps the line short."""
    joined = (MemberRegistered(0, ANNA, "", 0, 1), *round_of(10, ANNA, (), tuple(T)))
    assert told(*joined) == ["anna joined: anna starts 30 partitions; 13 requests"]


def test_what_is_there_already_is_told_once() -> None:
    """The group existed before the observer."""
    assert told(
        MemberSeen(0, "observer", FIRST_LOOK, 0, ANNA, ""), MemberSeen(0, "observer", FIRST_LOOK, 0, BEN, ""),
        OwnersSeen(1, "observer", FIRST_LOOK, 0, "g_anna-0", {T[0]: 0, T[1]: 3}),
    ) == ["at the first look anna has t-0,1 and ben has nothing"]  # fmt: skip


def test_a_rebalance_that_takes_long_says_what_it_waits_for() -> None:
    """One line appears before the rebalance is over, and one at the end if it still is not."""
    timeline = Timeline()
    stopped = (RebalanceStarted(5_000, ANNA, "", 0, "range", 0), DeliveryStopped(5_000, ANNA, "", 0, (T[0],)))
    for event in (*FIRST, *stopped):
        timeline.add(Traced(event, None))
    lines = RebalanceLines("g", timeline)
    assert len(list(lines.lines(5_500))) == 1
    (line,) = [*lines.lines(7_000), *lines.lines(7_500)]
    assert line.endswith("a rebalance takes more than 2 s: anna not done; no member reads t-0")
    (line,) = lines.lines()
    assert line.endswith("a rebalance is not over: anna not done; no member reads t-0")


def test_every_step_with_seconds_and_details() -> None:
    """The option -v prints these steps."""
    timeline = Timeline()
    for event in (*FIRST, *SECOND):
        timeline.add(Traced(event, 7))
    lines = list(StepLines("g", timeline).lines())
    assert lines[1] == "    0.010  anna        REBALANCE begins: started"
    assert "    5.010  anna        stops delivering t-0,1,2" in lines
    assert lines[-5:] == [
        "           ── rebalance 2 (range), 40 ms: ben joined: anna→ben t-2; 2 stopped and went on; "
        "silent at most 30 ms; 7 requests",
        "              t-2 silent for 30 ms (anna → ben)",
        "              t-0 silent for 20 ms (stays with anna)",
        "              t-1 silent for 20 ms (stays with anna)",
        "              ZooKeeper requests: 7 (ben 7)",
    ]


def test_the_picture_shows_every_silence_and_who_delivered() -> None:
    """The picture includes a silence much shorter than a column. Before the first delivery, nothing is drawn."""
    history = {
        T[0]: [Change(0, ANNA), Change(5_000, None), Change(5_010, BEN)],
        T[1]: [Change(2_000, BEN), Change(7_000, None)],
    }
    assert list(picture("g", history, 0, 20_000, 25)) == [
        "t-0  aaaaa'bbbbbbbbbbbbbb",
        "t-1    bbbbb·············",
        "     0 s       10 s",
        "     a anna  b ben",
        "     · silent",
        "     ' for a moment",
    ]


def test_a_picture_of_nothing_is_empty() -> None:
    assert list(picture("g", {}, 0, 1_000, 80)) == []
    assert list(picture("g", {T[0]: [Change(0, ANNA)]}, 0, 0, 80)) == []


def test_members_have_letters_of_their_own() -> None:
    """A member's letter is from its name, unless another member has that letter."""
    assert letters(["anna", "ben", "adam"]) == {"anna": "a", "ben": "b", "adam": "A"}
    assert len(set(letters([f"member-{number}" for number in range(62)]).values())) == 62
    assert letters([f"{number}" for number in range(63)])["62"] == "?"


def test_the_requests_of_a_restarted_member_are_counted_on() -> None:
    """The member's own count begins at 0 again, which must not lead to a negative number."""
    timeline = Timeline()
    counts = iter(range(180, 300))
    for event in (*FIRST, *SECOND):
        timeline.add(Traced(event, next(counts)))
    again = (MemberGone(9_000, "observer", "", 0, BEN), MemberRegistered(9_500, BEN, "", 0, 3))
    for number, event in enumerate((*again, *round_of(9_510, BEN, (), (T[2],)))):
        timeline.add(Traced(event, None if event.actor == "observer" else 5 + number))
    lines = list(RebalanceLines("g", timeline).lines())
    assert "requests" in lines[-1] and "-" not in lines[-1].rpartition(";")[2]


def test_a_short_silence_is_not_drawn_as_long_as_a_column() -> None:
    """The silence lasts 20 ms of 25 s."""
    changes = [Change(0, ANNA), Change(600_000, None), Change(600_020, ANNA), Change(1_300_000, None)]
    row, *_, legend = picture("g", {T[0]: changes}, 0, 1_500_000, 66)
    assert (row.count("'"), row.count("·")) == (2, 8), row
    assert "' for a moment" in legend


def test_thousands_of_partitions_are_summarised() -> None:
    """The lists stay short."""
    many = [TopicPartition("t", number) for number in range(2_000)]
    assert listed(many) == "t-0…1999"
    assert listed(many[::2]) == "t-0,2,4,6,8,10 and 994 more"
    assert listed([TopicPartition(f"t{number:02}", 0) for number in range(20)]).endswith("t11-0 and 8 more topics")
    assert len(listed_offsets({tp: tp.partition for tp in many})) < 120
    joined = (MemberRegistered(0, ANNA, "", 0, 1), *round_of(10, ANNA, (), tuple(many)))
    left = (MemberLeft(5_000, ANNA, "", 0), *round_of(5_002, BEN, (), tuple(many)))
    timeline = Timeline()
    for event in (*joined, *left):
        timeline.add(Traced(event, 1))
    lines = list(StepLines("g", timeline).lines())
    assert max(map(len, lines)) < 400 and len(lines) < 80
