"""The judges detect each violation after a loss of power, and accept everything that a loss may do. No disks are used.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.power.extraction import TOPIC, faults
from tests.power.history import Acknowledged, Found, History, Keeps, Log, Mark, Record, Topic, Transaction
from tests.power.judges import FOREIGN, GROUP, HOLE, LOST, TRANSACTION, UNFLUSHED, Violation, judge
from tests.power.verdict import Verdict

COUNT = 30
FLUSHED = Topic("flushed", durable=True)
ORDINARY = Topic("ordinary")
RETAINED = Topic("retained", Keeps.TAIL)
COMPACTED = Topic("compacted", Keeps.NEWEST)
PAYMENTS, ORDERS = (
    Topic("payments", durable=True, transactional=True),
    Topic("orders", durable=True, transactional=True),
)
TOPICS = (FLUSHED, ORDINARY, RETAINED, COMPACTED, PAYMENTS, ORDERS)
PLAIN = (FLUSHED, ORDINARY, RETAINED, COMPACTED)
ABORTED = 2
"""The number of the aborted transaction; 0, 1 and 3 are committed. Each has one record in each topic, followed by a
marker."""
TOMBSTONE = 20
"""Offset of the compacted topic's only tombstone, of key 0."""


OTHER = Record(b"3", b"other")


def record(topic: str, offset: int) -> Record:
    key = b"%d" % (offset % 5)
    return Record(key, None if (topic, offset) == (COMPACTED.name, TOMBSTONE) else b"%s-%d" % (topic.encode(), offset))


def history() -> History:
    made = History()
    for topic in TOPICS:
        made.add(topic)
    for topic in PLAIN:
        for offset in range(COUNT):
            _acknowledge(made, topic, offset)
    for number in range(4):
        for topic in (PAYMENTS, ORDERS):
            _acknowledge(made, topic, 2 * number)
        transaction = Transaction(number, {PAYMENTS.name: [2 * number], ORDERS.name: [2 * number]})
        if number == ABORTED:
            made.aborted.append(transaction)
        else:
            made.asked.append(number)
            made.committed.append(transaction)
    for end in (10, 20, COUNT):
        made.commits_asked.append({topic.name: end for topic in PLAIN})
        made.commits.append({topic.name: end for topic in PLAIN})
    return made


def _acknowledge(made: History, topic: Topic, offset: int) -> None:
    made.sent[topic.name].add(record(topic.name, offset))
    made.acknowledged[topic.name].append(Acknowledged(offset, record(topic.name, offset)))


def everything() -> Found:
    """All produced records, as a reader finds them."""
    logs = {topic.name: Log(0, COUNT, {at: record(topic.name, at) for at in range(COUNT)}) for topic in PLAIN}
    for topic in (PAYMENTS, ORDERS):
        records = {2 * number: record(topic.name, 2 * number) for number in range(4)}
        committed = {offset: each for offset, each in records.items() if offset != 2 * ABORTED}
        logs[topic.name] = Log(0, 8, records, committed)
    return Found(logs, {topic.name: COUNT for topic in PLAIN}, {PAYMENTS.name: 4, ORDERS.name: 4})


def judged(found: Found, mark: Mark | None = None, *, durable: bool = True) -> list[Violation]:
    made = history()
    return judge(TOPICS, made, mark or made.mark(), found, durable=durable)


def with_log(name: str, change: Callable[[Log], Log]) -> Found:
    found = everything()
    return found._replace(logs={**found.logs, name: change(found.logs[name])})


def without_topic(name: str) -> Found:
    found = everything()
    return found._replace(logs={topic: log for topic, log in found.logs.items() if topic != name})


def without(log: Log, *offsets: int) -> Log:
    return log._replace(records={at: each for at, each in log.records.items() if at not in offsets})


def cut_off(log: Log, end: int) -> Log:
    return without(log, *range(end, log.end))._replace(end=end)


def test_nothing_lost_is_no_violation() -> None:
    assert judged(everything()) == []


def _replaced(log: Log, offset: int, other: Record) -> Log:
    return log._replace(records={**log.records, offset: other})


def _committed(log: Log, missing: int) -> Log:
    assert log.committed is not None
    return log._replace(committed={at: each for at, each in log.committed.items() if at != missing})


ALLOWED = {
    "an ordinary log ends earlier": with_log("ordinary", lambda log: cut_off(log, 7)),
    "an ordinary log is empty": with_log("ordinary", lambda log: cut_off(log, 0)),
    "retention": with_log("retained", lambda log: without(log, *range(9))._replace(start=9)),
    "compaction": with_log("compacted", lambda log: without(log, *range(19))),
    "compaction of a part": with_log("compacted", lambda log: without(log, 1, 2, 3, 7, 11)),
    "a compacted log ends earlier": with_log("compacted", lambda log: without(cut_off(log, 15), 0, 1, 5, 6, 9)),
    "the tombstone and what it deletes is gone": with_log(
        "compacted", lambda log: without(cut_off(log, 24), 0, 5, 10, 15, 20)
    ),
    "a group's topic ends earlier": with_log("ordinary", lambda log: cut_off(log, 20)),
}


@pytest.mark.parametrize("found", ALLOWED.values(), ids=ALLOWED.keys())
def test_what_a_loss_of_power_may_do(found: Found) -> None:
    assert judged(found) == []


PLANTED = {
    "a flushed log ends earlier": (LOST, with_log("flushed", lambda log: cut_off(log, 29))),
    "a topic is gone": (LOST, without_topic("flushed")),
    "a hole": (HOLE, with_log("ordinary", lambda log: without(log, 11))),
    "a hole in what is flushed": (HOLE, with_log("flushed", lambda log: without(log, 11))),
    "the last record is missing, the end is kept": (HOLE, with_log("ordinary", lambda log: without(log, 29))),
    "the first records are missing": (HOLE, with_log("ordinary", lambda log: without(log, 0, 1)._replace(start=2))),
    "a hole behind what retention has removed": (
        HOLE, with_log("retained", lambda log: without(log, *range(9), 15)._replace(start=9)),
    ),
    "the newest of a key": (HOLE, with_log("compacted", lambda log: without(log, 26))),
    "the newest below an earlier end": (HOLE, with_log("compacted", lambda log: without(cut_off(log, 15), 12))),
    "all of a compacted log": (HOLE, with_log("compacted", lambda log: without(log, *range(COUNT)))),
    "what a tombstone deleted": (HOLE, with_log("compacted", lambda log: without(cut_off(log, 24), 5, 10, 15, 20))),
    "a reader that does not come to the end": (HOLE, with_log("compacted", lambda log: log._replace(is_stuck=True))),
    "another value": (FOREIGN, with_log("ordinary", lambda log: _replaced(log, 3, OTHER))),
    "the value of another offset": (FOREIGN, with_log("ordinary", lambda log: _replaced(log, 3, log.records[8]))),
    "a value behind the end": (FOREIGN, with_log("ordinary", lambda log: _replaced(log, COUNT, OTHER))),
    "a committed transaction": (TRANSACTION, with_log("payments", lambda log: _committed(log, 2))),
    "an aborted transaction": (TRANSACTION, with_log("payments", lambda log: log._replace(committed=log.records))),
    "a record of a transaction that is gone": (HOLE, with_log("payments", lambda log: without(log, 6))),
    "the offsets of a transaction": (
        TRANSACTION, everything()._replace(transactional_group={PAYMENTS.name: 4, ORDERS.name: 3}),
    ),
    "a transaction that stays open": (TRANSACTION, everything()._replace(transactional_group=None)),
    "a group's offset": (GROUP, everything()._replace(group={**everything().group, "flushed": 20})),
    "all offsets of a group": (GROUP, everything()._replace(group={})),
    "an offset that was never committed": (GROUP, everything()._replace(group={**everything().group, "flushed": 31})),
}  # fmt: skip


@pytest.mark.parametrize(("name", "found"), PLANTED.values(), ids=PLANTED.keys())
def test_what_it_must_not_do(name: str, found: Found) -> None:
    assert name in {each.judge for each in judged(found)}


def test_what_was_acknowledged_after_the_cut_may_be_gone() -> None:
    made = history()
    mark = made.mark()._replace(acknowledged={topic.name: 10 for topic in PLAIN}, commits=1)
    found = with_log("flushed", lambda log: cut_off(log, 10))
    found = found._replace(group={"flushed": 10, "ordinary": 10, "retained": 20, "compacted": COUNT})
    assert judged(found, mark) == []


def test_a_commit_that_was_asked_for_after_the_cut_is_not_visible() -> None:
    made = history()
    mark = made.mark()._replace(committed=2, asked=2)
    assert {each.judge for each in judged(everything(), mark)} == {TRANSACTION}


@pytest.mark.parametrize("found", [everything(), everything()._replace(transactional_group=None)])
def test_transactions_of_unflushed_internal_topics_break_no_promise(found: Found) -> None:
    made = history()
    mark = made.mark()._replace(committed=2, asked=2)
    unflushed = judged(found, mark, durable=False)
    assert {each.judge for each in unflushed} == {UNFLUSHED}
    assert not Verdict("", 0, unflushed).is_bad
    assert Verdict("", 0, judged(found, mark)).is_bad


def test_half_a_transaction_is_torn_though_it_was_not_confirmed() -> None:
    mark = history().mark()._replace(committed=2, acknowledged={topic.name: 3 for topic in TOPICS})
    found = with_log("orders", lambda log: _committed(log, 6))
    assert any("torn" in each.text for each in judged(found, mark))


def test_offsets_beyond_a_flushed_log_are_seen_even_if_commits_are_not_durable() -> None:
    found = with_log("flushed", lambda log: cut_off(log, 20))
    mark = history().mark()._replace(acknowledged={topic.name: 20 for topic in TOPICS})
    assert [each.judge for each in judged(found, mark, durable=False)] == [GROUP]


def test_a_topic_that_was_created_after_the_cut_is_not_judged() -> None:
    found = without_topic("flushed")
    acknowledged = {topic.name: COUNT for topic in TOPICS if topic is not FLUSHED}
    mark = history().mark()._replace(acknowledged=acknowledged)
    assert not [each for each in judged(found, mark) if each.topic == "flushed"]


def test_a_lake_has_each_record_once() -> None:
    made = History()
    made.add(TOPIC)
    for offset in range(10):
        _acknowledge(made, TOPIC, offset)
    mark = made.mark()._replace(acknowledged={TOPIC.name: 8})
    whole = [(offset, (record(TOPIC.name, offset).value or b"").decode()) for offset in range(8)]
    assert list(faults(made, mark, whole)) == []
    assert "missing" in next(faults(made, mark, whole[:7]))
    assert "twice" in next(faults(made, mark, [*whole, whole[3]]))
    assert "differ" in next(faults(made, mark, [*whole[:7], (7, "other")]))
