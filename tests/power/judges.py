"""The violations of promises that a loss of power must not cause for a topic, a transaction or a group: one judge each.
Pure.

A judge compares the clients' knowledge (``History``), up to the moment of the cut (``Mark``), with the results of the
reads afterwards (``Found``). ``durable`` in a judge's arguments: the internal topics were flushed or replicated, so
that commits confirmed before the cut must be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.power.history import Found, History, Keeps, Log, Mark, Offsets, Record, Topic, Transaction

LOST = "lost"
HOLE = "hole"
FOREIGN = "foreign"
TRANSACTION = "transaction"
GROUP = "group"
START = "start"
APPEND = "append"
EXTRACTION = "extraction"
UNFLUSHED = "unflushed"
LOG = "log"
NAMES = (LOST, HOLE, FOREIGN, TRANSACTION, GROUP, START, APPEND, EXTRACTION, UNFLUSHED)
"""LOST: acknowledged records of a durable topic are missing. HOLE: a record between others is missing. FOREIGN: a
record was not produced there. TRANSACTION: a transaction is torn, undone, or visible although it was not committed.
GROUP: a committed offset is wrong. START: there is no broker or no leader in time. APPEND: no new records are accepted.
EXTRACTION: the lake lacks a record or has it twice. UNFLUSHED: like TRANSACTION, where the internal topics were not
flushed, which docs/explanation/durability.md does not promise. LOG accompanies other findings with the end of a
broker's log."""
NOT_PROMISED = (UNFLUSHED, LOG)


class Violation(NamedTuple):
    judge: str
    topic: str
    text: str

    def __str__(self) -> str:
        return f"{self.judge}: {self.topic}: {self.text}"


def judge(topics: Sequence[Topic], history: History, mark: Mark, found: Found, *, durable: bool) -> list[Violation]:
    """The violations, if any. Topics created after the mark are not judged."""
    violations = []
    for topic in topics:
        if topic.name not in mark.acknowledged:
            continue
        log = found.logs.get(topic.name)
        if log is None:
            violations.append(Violation(LOST, topic.name, "the topic is not there"))
            continue
        texts = [(LOST, text) for text in lost(topic, history, mark, log)]
        texts += [(HOLE, text) for text in holes(topic, history, mark, log)]
        texts += [(FOREIGN, text) for text in foreign(topic, history, log)]
        violations += [Violation(name, topic.name, text) for name, text in texts]
    transactional = [topic.name for topic in topics if topic.transactional and topic.name in found.logs]
    violations += [
        Violation(TRANSACTION if durable else UNFLUSHED, "transactions", text)
        for text in transactions(transactional, history, mark, found, durable=durable)
    ]
    violations += [Violation(GROUP, "group", text) for text in groups(topics, history, mark, found, durable=durable)]
    return violations


def _some(values: Sequence[object]) -> str:
    return f"{len(values)} (first {values[0]}, last {values[-1]})"


def lost(topic: Topic, history: History, mark: Mark, log: Log) -> Iterator[str]:
    """A durable log does not end before an acknowledged record."""
    beyond = sorted(each.offset for each in history.before(topic.name, mark) if each.offset >= log.end)
    if topic.durable and beyond:
        yield f"{_some(beyond)} acknowledged offsets lie beyond the log end {log.end}"


def holes(topic: Topic, history: History, mark: Mark, log: Log) -> Iterator[str]:
    """Between its first and last offset a log has each record that retention and compaction may not remove."""
    if topic.keeps is not Keeps.TAIL and log.start != 0:
        yield f"the log starts at {log.start}"
    if log.is_stuck:
        last = max(log.records, default=log.start - 1)
        yield f"a reader gets nothing after offset {last}, in the log {log.start}..{log.end}"
    written = _written(topic, history, mark, log)
    missing = sorted(written.keys() - log.records.keys())
    if topic.keeps is Keeps.NEWEST:
        newest = {record.key: offset for offset, record in sorted(written.items())}
        kept = {offset for key, offset in newest.items() if written[offset].value is not None}
        missing = [offset for offset in missing if offset in kept]
        yield from _resurrected(newest, written, log)
    if missing:
        what = "that are the newest of their keys, " if topic.keeps is Keeps.NEWEST else ""
        yield f"{_some(missing)} records are missing {what}in the log {log.start}..{log.end}"


def _written(topic: Topic, history: History, mark: Mark, log: Log) -> dict[int, Record]:
    """The records that were produced between a log's ends. Markers of transactions may follow, which are also written
    after the cut. The end is therefore after the last record that was read, or that was confirmed before the cut.
    """
    end = log.end
    if topic.transactional:
        confirmed = history.before(topic.name, mark) if topic.durable else ()
        end = max([-1, *log.records, *(each.offset for each in confirmed)]) + 1
    return {each.offset: each.record for each in history.acknowledged[topic.name] if log.start <= each.offset < end}


def _resurrected(newest: Mapping[bytes, int], written: Mapping[int, Record], log: Log) -> Iterator[str]:
    """Records that are older than their key's tombstone, although the tombstone was compacted away."""
    gone = {
        key: offset for key, offset in newest.items() if written[offset].value is None and offset not in log.records
    }
    back = sorted(offset for offset, record in log.records.items() if offset < gone.get(record.key, -1))
    if back:
        yield f"{_some(back)} records are there although the tombstone behind them is gone"


def foreign(topic: Topic, history: History, log: Log) -> Iterator[str]:
    """A log has only records that were produced to it, each at its acknowledged offset."""
    written = {each.offset: each.record for each in history.acknowledged[topic.name]}
    sent = history.sent[topic.name]
    wrong = sorted(
        offset for offset, record in log.records.items()
        if written.get(offset, record) != record or record not in sent
    )  # fmt: skip
    if wrong:
        shown = log.records[wrong[0]]
        yield f"{_some(wrong)} records are not those produced there, first {shown.key!r}: {(shown.value or b'')[:40]!r}"


def transactions(names: Sequence[str], history: History, mark: Mark, found: Found, *, durable: bool) -> Iterator[str]:
    """read_committed shows whole transactions, none that was aborted, and each that was confirmed before the cut. No
    transaction stays open: its group's offsets can be read."""
    if found.transactional_group is None:
        yield "the offsets of the transactions' group stay unstable"
    visible = {name: (found.logs[name].committed or {}).keys() for name in names}
    confirmed = {each.number for each in history.committed[: mark.committed]}
    asked = set(history.asked[: mark.asked])
    for each in history.aborted:
        if any(set(each.offsets.get(name, ())) & visible[name] for name in names):
            yield f"transaction {each.number} was aborted and is visible"
    for each in (*history.committed, *history.unknown):
        state = _visibility(each, visible)
        if durable and each.number in confirmed and state != "whole":
            yield f"transaction {each.number} was confirmed before the cut and is {state}"
        elif durable and state == "torn":
            yield f"transaction {each.number} is torn"
        elif state != "absent" and each.number not in asked and mark.asked < len(history.asked):
            yield f"transaction {each.number} is {state}, but its commit was asked for after the cut"
    if durable and found.transactional_group is not None:
        yield from _committed_with(names, history, visible, found.transactional_group)


def _visibility(transaction: Transaction, visible: Mapping[str, object]) -> str:
    there = [
        offset in visible[name]  # type: ignore[operator]
        for name, offsets in transaction.offsets.items() if name in visible
        for offset in offsets
    ]  # fmt: skip
    return "whole" if all(there) else "torn" if any(there) else "absent"


def _committed_with(
    names: Sequence[str], history: History, visible: Mapping[str, object], group: Offsets
) -> Iterator[str]:
    """The committed offsets of transactions are those of the last visible one."""
    shown = [each.number for each in (*history.committed, *history.unknown) if _visibility(each, visible) == "whole"]
    expected = max(shown, default=-1) + 1
    for name in names:
        offset = group.get(name, 0)
        if offset != expected:
            yield f"the transactions' group is at {offset} of {name}, their records say {expected}"


def groups(topics: Sequence[Topic], history: History, mark: Mark, found: Found, *, durable: bool) -> Iterator[str]:
    """A group's offset is one that it committed, not before the last one that was confirmed, and, where the topic is
    durable, not beyond the log end."""
    for topic in topics:
        offset = found.group.get(topic.name)
        confirmed = max((each.get(topic.name, 0) for each in history.commits[: mark.commits]), default=0)
        if durable and (offset or 0) < confirmed:
            yield f"the offset of {topic.name} is {offset}, {confirmed} was confirmed"
        if offset is None:
            continue
        if all(each.get(topic.name) != offset for each in history.commits_asked):
            yield f"the offset of {topic.name} is {offset}, which was never committed"
        if topic.durable and topic.name in found.logs and offset > found.logs[topic.name].end:
            yield f"the offset of {topic.name} is {offset}, beyond the log end {found.logs[topic.name].end}"
