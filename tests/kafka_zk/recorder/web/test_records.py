"""Records as squares: what is acknowledged, what replicas have, what groups read, and which squares are red."""

from collections.abc import Iterable
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.recorder.timeline.record_events import RecordAcknowledged, RecordEvent, RecordRead, ReplicaSeen
from kafka_zk.recorder.web.records import MOST_COLUMNS, MOST_PARTITIONS, Commit, Row, Seen, faults_in, records_of
from kafka_zk.recorder.web.verdicts import (
    LEFT_OUT,
    LOST,
    NOT_READ,
    READ_TWICE,
    WRITTEN_TWICE,
    Fault,
    Verdict,
    decode,
    encode,
)

TP = TopicPartition("t", 0)


def log(broker_id: int, values: str, mark: int, *, first: int = 0, tp: TopicPartition = TP) -> ReplicaSeen:
    return ReplicaSeen(0, f"broker-{broker_id}", "", 0, tp, True, first, tuple(values), mark)


def no_log(broker_id: int) -> ReplicaSeen:
    return ReplicaSeen(0, f"broker-{broker_id}", "", 0, TP, False, 0, (), -1)


def told(offset: int, value: str) -> RecordAcknowledged:
    return RecordAcknowledged(0, "pia", "", 0, TP, offset, value)


def read(member: str, offset: int, value: str) -> RecordRead:
    return RecordRead(0, f"g_{member}-1", "", 0, TP, offset, value)


def seen(
    events: Iterable[RecordEvent], *faults: str, leader: int = 1, commit: Commit | None = None, is_over: bool = False
) -> Seen:
    """``faults``: each as ``fate: values``."""
    state = {"partition": 0, "replicas": [1, 2], "leader": leader, "isr": [1], "epoch": 0}
    cluster: dict[str, Any] = {
        "brokers": [{"id": 1}],
        "topics": [{"name": "t", "partitions": [state]}],
        "groups": [{"name": "g"}],
    }
    found = [Fault(TP, value, fate, "") for each in faults for fate, values in [each.split(": ")] for value in values]
    return Seen(tuple(events), cluster, {("g", TP): commit} if commit else {}, found, is_over)


def squares(row: Row) -> str:
    """Value and state of each square; ``!`` for a red one."""
    return " ".join(
        f"{each.value}-{each.state}{'!' if each.fault else ''}" if each is not None else "." for each in row.squares
    )


def test_a_record_arrives_is_replicated_and_passes_the_high_watermark() -> None:
    steps: list[RecordEvent] = [log(1, "a", 0), log(2, "a", 0), log(1, "a", 1), told(0, "a"), log(2, "a", 1)]
    shown = []
    for count in range(1, 6):
        [found] = records_of(seen(steps[:count]))
        shown.append([squares(row) for row in found.rows])
    assert shown == [
        [".", "a-appended", "."],
        [".", "a-appended", "a-appended"],
        [".", "a-passed", "a-appended"],
        ["a-acknowledged", "a-passed", "a-appended"],
        ["a-acknowledged", "a-passed", "a-passed"],
    ]
    assert [(row.name, row.note) for row in found.rows] == [
        ("acknowledged", "to pia"), ("broker 1", "leads"), ("broker 2", "behind, no session")
    ]  # fmt: skip


def test_a_lost_record_is_red_from_the_moment_on_at_which_the_leader_lacks_it() -> None:
    before = [log(1, "ab", 2), told(0, "a"), told(1, "b")]
    [whole] = records_of(seen(before, f"{LOST}: b"))
    assert [squares(row) for row in whole.rows[:2]] == ["a-acknowledged b-acknowledged", "a-passed b-passed"]
    cut = records_of(seen([*before, log(1, "a", 1)], f"{LOST}: b"))
    assert [squares(row) for row in cut[0].rows[:2]] == ["a-acknowledged b-acknowledged!", "a-passed b-gone!"]
    assert faults_in(cut) == ["b is lost: acknowledged, but no longer in the leader's log."]
    gone = records_of(seen([*before, no_log(1)], f"{LOST}: ab"))
    assert squares(gone[0].rows[1]) == "a-gone! b-gone!" and gone[0].rows[1].note == "leads, no log"


def test_only_what_the_judges_found_is_red() -> None:
    """A record that its producer saw deleted with its topic is not lost."""
    [found] = records_of(seen([told(0, "a"), log(1, "", 0)]))
    assert squares(found.rows[0]) == "a-acknowledged"


def test_without_a_leader_nothing_is_lost_that_a_disk_has() -> None:
    events = [log(2, "a", 1), log(1, "", 0), told(0, "a")]
    [found] = records_of(seen(events, f"{LOST}: a", leader=-1))
    assert squares(found.rows[0]) == "a-acknowledged"


def test_of_two_records_at_one_offset_only_the_lost_one_is_named() -> None:
    found = records_of(seen([told(0, "a"), told(0, "x"), log(1, "x", 1)], f"{LOST}: a"))
    assert squares(found[0].rows[0]) == "a x-acknowledged!"
    assert faults_in(found) == ["a is lost: acknowledged, but no longer in the leader's log."]


def test_a_record_that_is_twice_in_a_log_is_red_where_it_is() -> None:
    found = records_of(seen([log(1, "axx", 3), log(2, "ax", 2)], f"{WRITTEN_TWICE}: x"))
    assert [squares(row) for row in found[0].rows[1:]] == ["a-passed x-passed! x-passed!", "a-passed x-passed ."]
    assert faults_in(found) == ["x is written twice in the same log."]


def test_a_record_that_is_left_out_of_its_transaction_is_red_in_the_end() -> None:
    """Only then do the judges know what readers of committed records get."""
    events = [log(1, "ab", 2), told(0, "a"), told(1, "b")]
    shown = [records_of(seen(events, f"{LEFT_OUT}: a", is_over=is_over)) for is_over in (False, True)]
    assert [squares(found[0].rows[1]) for found in shown] == ["a-passed b-passed", "a-passed! b-passed"]
    assert faults_in(shown[1]) == [
        "a is left out of a committed transaction: readers of committed records do not get it."
    ]


def test_another_record_than_the_leaders_is_said() -> None:
    [found] = records_of(seen([log(1, "x", 1), log(2, "a", 0)]))
    square = found.rows[2].squares[0]
    assert square is not None and square.said.endswith("; the leader has x there") and not square.fault


def test_a_group_reads_and_commits() -> None:
    events = [log(1, "abc", 3), read("anna", 0, "a"), read("anna", 1, "b")]
    [found] = records_of(seen(events, commit=Commit(1, 1)))
    assert (squares(found.rows[3]), found.rows[3].note) == ("a-committed b-read .", "committed 1")
    [skipped] = records_of(seen(events, commit=Commit(3, 3)))
    assert squares(skipped.rows[3]) == "a-committed b-committed c-skipped"


def test_a_commit_that_goes_back_is_red_if_the_judges_object() -> None:
    events = [log(1, "ab", 2), read("anna", 0, "a"), read("anna", 1, "b")]
    [chosen] = records_of(seen(events, commit=Commit(1, 2)))
    assert squares(chosen.rows[3]) == "a-committed b-back"
    wrong = records_of(seen(events, commit=Commit(1, 2, is_fault=True)))
    assert squares(wrong[0].rows[3]) == "a-committed b-back!" and wrong[0].rows[3].note == "committed 1, before 2"
    assert faults_in(wrong) == ["The committed offset of t-0 went back from 2 to 1."]


def test_a_record_is_red_when_it_is_read_again_and_at_the_end_if_nobody_reads_it() -> None:
    events = [log(1, "abc", 3), read("anna", 0, "a")]
    faults = f"{READ_TWICE}: a", f"{NOT_READ}: bc"
    [once] = records_of(seen(events, *faults))
    assert squares(once.rows[3]) == "a-read . ."
    again = records_of(seen([*events, read("ben", 0, "a")], *faults, is_over=True))
    assert squares(again[0].rows[3]) == "a-read! b-unread! c-unread!"
    assert faults_in(again) == [
        "a is read twice, which the other rule prevents.", "b and c are not read by any member."
    ]  # fmt: skip


def test_older_records_are_counted_and_so_are_lost_ones_among_them() -> None:
    values = "".join(chr(ord("A") + number) for number in range(MOST_COLUMNS + 4))
    events = [log(1, values[1:], MOST_COLUMNS, first=1), *(told(at, value) for at, value in enumerate(values))]
    [found] = records_of(seen(events, f"{LOST}: A"))
    assert found.columns[0] == "4" and all(len(row.squares) == MOST_COLUMNS for row in found.rows)
    assert [(row.older_count, row.older_faults) for row in found.rows] == [(4, 1), (4, 1), (0, 0)]


def test_partitions_are_limited_and_those_without_records_are_not_shown() -> None:
    tps = [TopicPartition("t", number) for number in range(MOST_PARTITIONS + 3)]
    events = [log(1, "" if tp.partition == 0 else "a", 1, tp=tp) for tp in tps]
    whole = seen(events)
    [topic] = whole.cluster["topics"]
    topic["partitions"] = [{**topic["partitions"][0], "partition": tp.partition} for tp in tps]
    assert [each.name for each in records_of(whole)] == [f"t-{number}" for number in range(1, MOST_PARTITIONS + 1)]


def test_verdicts_survive_the_recording() -> None:
    verdict = Verdict("old", "a rule", (Fault(TP, "a", LOST, "why"),), ("found",), "so")
    assert decode(encode([verdict])) == {"old": verdict}
