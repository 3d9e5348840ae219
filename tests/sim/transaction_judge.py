"""Judges the observations of transactional clients and read_committed readers. Pure.

As in Elle's checks of Kafka, every value is appended once, so a history shows which transaction wrote the records that
a reader received. Times are those of one monotonic clock, in nanoseconds. The records of two concurrent transactions
may have different orders in different partitions, because Kafka assigns offsets when records are sent. A write cycle is
a transaction whose records lie before those of one that had ended before it began.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import pairwise
from typing import Any, NamedTuple

_MOST_SHOWN = 3
NEVER = 1 << 62


class Outcome(Enum):
    """The client's knowledge of how its transaction ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Append(NamedTuple):
    """``acknowledged_ns`` is ``NEVER``, and ``offset`` -1, if no client received the response."""

    partition: int
    value: str
    sent_ns: int
    acknowledged_ns: int = NEVER
    offset: int = -1


class Poll(NamedTuple):
    """The records that a client read in a transaction: all records between two positions of its group."""

    partition: int
    begin: int
    end: int
    records: tuple[tuple[int, str], ...]
    at_ns: int


class Transaction(NamedTuple):
    """``commit_ns``: when the client first asked for the commit; ``ended_ns``: when it received the response."""

    name: str
    producer: str
    begun_ns: int
    appends: tuple[Append, ...]
    polls: tuple[Poll, ...]
    outcome: Outcome
    commit_ns: int = NEVER
    ended_ns: int = NEVER


class Observed(NamedTuple):
    """A record that a reader received."""

    partition: int
    offset: int
    value: str
    at_ns: int


class History(NamedTuple):
    """``read``: the records of each reader, from the start of every partition; ``final``: the records after all had
    ended.

    ``committed``: the committed offsets at the end, by producer and partition.
    """

    transactions: Sequence[Transaction]
    read: Mapping[str, Sequence[Observed]]
    final: Mapping[int, Sequence[tuple[int, str]]]
    committed: Mapping[str, Mapping[int, int]]


def faults(history: History) -> list[str]:
    """A sentence for each kind of violation, with the first examples."""
    view = _View(history)
    checks: dict[str, Callable[[_View], Iterator[str]]] = {
        "lost commit": _lost, "torn transaction": _torn, "aborted record": _aborted, "open record": _open,
        "unknown record": _unknown, "record that is there twice": _doubled, "record in the wrong place": _misplaced,
        "order of a producer": _producer_order, "write cycle": _write_cycles, "order of time": _time_order,
        "read cycle": _read_cycles, "reader that differs": _readers, "consumed offsets": _consumed,
    }  # fmt: skip
    found = []
    for name, check in checks.items():
        examples = list(check(view))
        if examples:
            found.append(f"{name} ({len(examples)}): {'; '.join(examples[:_MOST_SHOWN])}")
    return found


def summary(history: History) -> str:
    """The numbers of judged transactions and records."""
    outcomes = Counter(transaction.outcome.value for transaction in history.transactions)
    records = sum(map(len, history.final.values()))
    told = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
    return f"{len(history.transactions)} transactions ({told}), {records} committed records"


class _View:
    """A history with indexes for the checks."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.writer: dict[str, tuple[Transaction, Append]] = {
            append.value: (transaction, append)
            for transaction in history.transactions
            for append in transaction.appends
        }
        self.place = {
            value: (partition, offset) for partition, records in history.final.items() for offset, value in records
        }
        self.values = [value for records in history.final.values() for _, value in records]

    def counts(self, transaction: Transaction) -> bool:
        """Whether the transaction was committed, according to its client or the log."""
        if transaction.outcome is Outcome.UNKNOWN:
            return any(append.value in self.place for append in transaction.appends)
        return transaction.outcome is Outcome.COMMITTED

    def seen(self) -> Iterator[tuple[str, str, int]]:
        """(Reader, value, time) of each record that was read."""
        for reader, records in self.history.read.items():
            yield from ((reader, observed.value, observed.at_ns) for observed in records)
        for transaction in self.history.transactions:
            for poll in transaction.polls:
                yield from ((transaction.name, value, poll.at_ns) for _, value in poll.records)
        yield from (("the last reader", value, NEVER) for value in self.values)


def _lost(view: _View) -> Iterator[str]:
    for transaction in view.history.transactions:
        if transaction.outcome is Outcome.COMMITTED:
            gone = [append.value for append in transaction.appends if append.value not in view.place]
            if gone:
                yield f"{transaction.name} lacks {len(gone)} of {len(transaction.appends)}, first {gone[0]}"


def _torn(view: _View) -> Iterator[str]:
    for transaction in view.history.transactions:
        there = [append for append in transaction.appends if append.value in view.place]
        if transaction.outcome is Outcome.UNKNOWN and there:
            acknowledged = [append for append in transaction.appends if append not in there]
            if acknowledged:
                yield f"{transaction.name} lacks {acknowledged[0].value} and has {there[0].value}"


def _aborted(view: _View) -> Iterator[str]:
    for reader, value, _ in view.seen():
        if value in view.writer and view.writer[value][0].outcome is Outcome.ABORTED:
            yield f"{reader} was given {value} of {view.writer[value][0].name}"


def _open(view: _View) -> Iterator[str]:
    for reader, value, at_ns in view.seen():
        if value in view.writer and at_ns < view.writer[value][0].commit_ns:
            yield f"{reader} was given {value} before {view.writer[value][0].name} was committed"


def _unknown(view: _View) -> Iterator[str]:
    yield from (f"{reader} was given {value}" for reader, value, _ in view.seen() if value not in view.writer)


def _doubled(view: _View) -> Iterator[str]:
    yield from (f"{value} {count} times" for value, count in Counter(view.values).items() if count > 1)


def _misplaced(view: _View) -> Iterator[str]:
    for value, place in view.place.items():
        if value in view.writer:
            append = view.writer[value][1]
            if place[0] != append.partition or append.offset not in (-1, place[1]):
                yield f"{value} is at {place}, acknowledged at {(append.partition, append.offset)}"


def _by_offset(view: _View) -> Iterator[tuple[int, list[tuple[Transaction, Append]]]]:
    for partition, records in view.history.final.items():
        yield partition, [view.writer[value] for _, value in records if value in view.writer]


def _producer_order(view: _View) -> Iterator[str]:
    for partition, written in _by_offset(view):
        last: dict[str, int] = {}
        for transaction, append in written:
            if append.sent_ns < last.get(transaction.producer, 0):
                yield f"{append.value} in partition {partition} was sent before what lies before it"
            last[transaction.producer] = append.sent_ns


def _write_cycles(view: _View) -> Iterator[str]:
    for partition, written in _by_offset(view):
        ended_ns, name = NEVER, ""
        for transaction, _ in reversed(written):
            if ended_ns < transaction.begun_ns:
                yield f"in partition {partition} {transaction.name} lies before {name}, which had ended before it began"
            if transaction.ended_ns < ended_ns:
                ended_ns, name = transaction.ended_ns, transaction.name


def _time_order(view: _View) -> Iterator[str]:
    for partition, written in _by_offset(view):
        acknowledged_ns, value = NEVER, ""
        for _, append in reversed(written):
            if acknowledged_ns < append.sent_ns:
                yield f"in partition {partition} {append.value} lies before {value}, which was there when it was sent"
            if append.acknowledged_ns < acknowledged_ns:
                acknowledged_ns, value = append.acknowledged_ns, append.value


def _read_cycles(view: _View) -> Iterator[str]:
    """Cycles of transactions, each of which read what the next one wrote."""
    reads: dict[str, set[str]] = {}
    for transaction in view.history.transactions:
        if view.counts(transaction):
            values = (value for poll in transaction.polls for _, value in poll.records if value in view.writer)
            reads[transaction.name] = {view.writer[value][0].name for value in values}
    is_done: dict[str, bool] = {}
    for root in reads:
        path = [(root, iter(sorted(reads[root])))] if root not in is_done else []
        is_done.setdefault(root, False)
        while path:
            name, rest = path[-1]
            follows = next(rest, None)
            if follows is None:
                is_done[name] = True
                path.pop()
            elif is_done.get(follows) is False:
                yield f"{' reads of '.join(each for each, _ in path)} reads of {follows}"
            elif follows not in is_done:
                is_done[follows] = False
                path.append((follows, iter(sorted(reads.get(follows, ())))))


def _readers(view: _View) -> Iterator[str]:
    """Check that each reader received all committed records, in order, up to the point where it stopped."""
    for reader, records in view.history.read.items():
        by_partition: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for observed in records:
            by_partition[observed.partition].append((observed.offset, observed.value))
        for partition, given in by_partition.items():
            yield from _difference(f"{reader} in partition {partition}", given, view.history.final[partition])


def _difference(name: str, given: Sequence[tuple[int, str]], wanted: Sequence[tuple[int, str]]) -> Iterator[str]:
    for has, should in zip(given, wanted, strict=False):
        if has != should:
            yield f"{name} was given {has} where {should} follows"
            return
    if len(given) > len(wanted):
        yield f"{name} was given {given[len(wanted)]} behind the end"


def _consumed(view: _View) -> Iterator[str]:
    """Check that a producer's transactions read each record once: offsets are committed with their transaction."""
    consumed: dict[tuple[str, int], list[tuple[Poll, Transaction]]] = defaultdict(list)
    for transaction in view.history.transactions:
        if view.counts(transaction):
            for poll in transaction.polls:
                consumed[transaction.producer, poll.partition].append((poll, transaction))
    for (producer, partition), pairs in consumed.items():
        name = f"{producer} in partition {partition}"
        polls = sorted(pairs, key=lambda pair: (pair[0].begin, pair[0].end))
        if polls[0][0].begin != 0:
            yield f"{name}: the first transaction, {polls[0][1].name}, begins at {polls[0][0].begin}"
        for (before, _), (after, transaction) in pairwise(polls):
            if before.end != after.begin:
                yield f"{name}: {transaction.name} begins at {after.begin}, the one before it ended at {before.end}"
        for poll, transaction in pairs:
            wanted = [each for each in view.history.final[partition] if poll.begin <= each[0] < poll.end]
            if list(poll.records) != wanted:
                yield f"{name}: {transaction.name} was given {len(poll.records)} of {len(wanted)} records"
        end = view.history.committed.get(producer, {}).get(partition)
        if end is not None and end != polls[-1][0].end:
            yield f"{name}: offset {end} is committed, and {polls[-1][0].end} was"


# -- journals of clients --------------------------------------------------------------------------------------------


def transactions_of(clients: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Transaction]:
    """The transactions in the clients' journals (written by ``transaction_client``). ``clients``: by ``PRODUCER/LIFE``.

    A transaction counts as aborted if its client did not request the commit, or requested it after its successor had
    begun.
    """
    inits = {
        name: [(event["from"], event["at"]) for event in events if event["event"] == "init"]
        for name, events in clients.items()
    }
    found = []
    for name, events in clients.items():
        producer = name.partition("/")[0]
        successors = [init for other, theirs in inits.items() if other.startswith(f"{producer}/") for init in theirs]
        for number, part in enumerate(_parts(events)):
            transaction = _transaction(f"{name}/{number}", producer, part)
            own_ns = max(at_ns for _, at_ns in inits[name])
            is_fenced = any(own_ns < from_ns and at_ns < transaction.commit_ns for from_ns, at_ns in successors)
            if transaction.outcome is Outcome.UNKNOWN and (is_fenced or transaction.commit_ns == NEVER):
                transaction = transaction._replace(outcome=Outcome.ABORTED)
            found.append(transaction)
    return found


def _parts(events: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    parts: list[list[Mapping[str, Any]]] = []
    for event in events:
        if event["event"] == "begin":
            parts.append([])
        if parts and event["event"] != "init":
            parts[-1].append(event)
    return parts


def _transaction(name: str, producer: str, events: Sequence[Mapping[str, Any]]) -> Transaction:
    appends: dict[str, Append] = {}
    polls = []
    outcome, commit_ns, ended_ns = Outcome.UNKNOWN, NEVER, NEVER
    for event in events:
        kind, at_ns = event["event"], event["at"]
        if kind == "send":
            appends[event["value"]] = Append(event["partition"], event["value"], at_ns)
        elif kind == "acknowledged" and appends[event["value"]].acknowledged_ns == NEVER:
            appends[event["value"]] = appends[event["value"]]._replace(acknowledged_ns=at_ns, offset=event["offset"])
        elif kind == "read":
            records = tuple((offset, value) for offset, value in event["records"])
            polls.append(Poll(event["partition"], event["from"], event["to"], records, at_ns))
        elif kind == "commit":
            commit_ns = min(commit_ns, at_ns)
        elif kind in ("committed", "aborted"):
            outcome, ended_ns = Outcome(kind), at_ns
    return Transaction(
        name, producer, events[0]["at"], tuple(appends.values()), tuple(polls), outcome, commit_ns, ended_ns
    )
