"""A minimal model of a broker with transactions, with optional mistakes that the judge of histories must find."""

import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.sim.transaction_judge import NEVER, Append, History, Observed, Outcome, Poll, Transaction

PARTITIONS = 3
PRODUCERS = 3
_STEPS = 400

ABORTED_ARE_READ = "readers are given aborted records"
OPEN_ARE_READ = "readers do not stop at the last stable offset"
RECORD_IS_LOST = "a record of a committed transaction is gone"
MARKER_IS_WRONG = "one partition has the marker of an abort"
ZOMBIES_COMMIT = "who was fenced may commit"
OFFSETS_COUNT_ALWAYS = "the offsets of an aborted transaction count"
RECORD_IS_DOUBLED = "a record that is sent again is appended again"
ORDER_IS_LOST = "two batches change places"
READERS_SKIP = "a reader that waited goes on at the end of the log"
MISTAKES = (
    ABORTED_ARE_READ, OPEN_ARE_READ, RECORD_IS_LOST, MARKER_IS_WRONG, ZOMBIES_COMMIT, OFFSETS_COUNT_ALWAYS,
    RECORD_IS_DOUBLED, ORDER_IS_LOST, READERS_SKIP,
)  # fmt: skip


@dataclass
class _Entry:
    value: str
    owner: str
    state: Outcome | None = None  # None: open


@dataclass
class _Open:
    name: str
    producer: str
    begun_ns: int
    appends: list[Append] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)


class TransactionModel:
    """Producers with transactions that read and append, and a reader beside them.

    Args:
        mistake: one of ``MISTAKES``, made occasionally.
    """

    def __init__(self, seed: int, mistake: str = "") -> None:
        self._random = random.Random(seed)
        self._mistake = mistake
        self._logs: dict[int, list[_Entry]] = {number: [] for number in range(PARTITIONS)}
        self._positions: dict[str, dict[int, int]] = defaultdict(lambda: dict.fromkeys(range(PARTITIONS), 0))
        self._open: dict[str, _Open] = {}
        self._zombies: list[_Open] = []
        self._done: list[Transaction] = []
        self._read: list[Observed] = []
        self._now_ns = 0
        self._numbers = 0

    def run(self) -> History:
        """Run the model. Returns what its clients saw."""
        producers = [f"p{number}" for number in range(PRODUCERS)]
        for _ in range(_STEPS):
            self._now_ns += 1
            self._step(self._random.choice(producers))
            if self._random.random() < 0.3:
                self._observe()
        for producer in producers:
            self._now_ns += 1
            self._end(producer, Outcome.ABORTED)
        self._observe()
        final = {number: self._visible(number, 0)[0] for number in self._logs}
        return History(self._done, {"reader": self._read}, final, self._positions)

    def _makes(self, mistake: str) -> bool:
        return self._mistake == mistake and self._random.random() < 0.2

    def _step(self, producer: str) -> None:
        transaction = self._open.get(producer)
        if transaction is None:
            self._numbers += 1
            self._open[producer] = _Open(f"{producer}/{self._numbers}", producer, self._now_ns)
            return
        self._random.choice([self._append, self._append, self._append, self._poll, self._finish])(transaction)

    def _finish(self, transaction: _Open) -> None:
        outcomes = [Outcome.COMMITTED, Outcome.COMMITTED, Outcome.ABORTED, Outcome.UNKNOWN]
        if not transaction.appends:  # otherwise, nothing shows the outcome
            self._append(transaction)
        if self._random.random() < 0.25:
            self._zombies.append(self._open[transaction.producer])
            self._end(transaction.producer, Outcome.ABORTED)
        else:
            self._end(transaction.producer, self._random.choice(outcomes))

    def _append(self, transaction: _Open) -> None:
        self._numbers += 1
        number, value = self._random.randrange(PARTITIONS), f"v{self._numbers}"
        log = self._logs[number]
        log.append(_Entry(value, transaction.name))
        transaction.appends.append(Append(number, value, self._now_ns, self._now_ns, len(log) - 1))
        if self._makes(RECORD_IS_DOUBLED):
            log.append(_Entry(value, transaction.name))
        if len(log) > 1 and self._makes(ORDER_IS_LOST):
            log[-2:] = reversed(log[-2:])

    def _poll(self, transaction: _Open) -> None:
        number = self._random.randrange(PARTITIONS)
        if any(poll.partition == number for poll in transaction.polls):
            return
        begin = self._positions[transaction.producer][number]
        records, end = self._visible(number, begin)
        if end > begin:
            transaction.polls.append(Poll(number, begin, end, tuple(records), self._now_ns))

    def _end(self, producer: str, outcome: Outcome) -> None:
        transaction = self._open.pop(producer, None)
        if transaction is None:
            return
        is_committed = outcome is Outcome.COMMITTED or (outcome is Outcome.UNKNOWN and self._random.random() < 0.5)
        self._mark(transaction, is_committed=is_committed)
        if is_committed or self._makes(OFFSETS_COUNT_ALWAYS):
            self._positions[producer].update({poll.partition: poll.end for poll in transaction.polls})
        if transaction in self._zombies and self._makes(ZOMBIES_COMMIT):
            self._mark(transaction, is_committed=True)
        asked_ns = NEVER if outcome is Outcome.ABORTED else self._now_ns
        heard_ns = NEVER if outcome is Outcome.UNKNOWN else self._now_ns
        appends, polls = tuple(transaction.appends), tuple(transaction.polls)
        self._done.append(
            Transaction(transaction.name, producer, transaction.begun_ns, appends, polls, outcome, asked_ns, heard_ns)
        )

    def _mark(self, transaction: _Open, *, is_committed: bool) -> None:
        """Write the transaction's markers. Each takes an offset, as in Kafka."""
        for number in sorted({append.partition for append in transaction.appends}):
            log = self._logs[number]
            kept = is_committed and not self._makes(MARKER_IS_WRONG)
            mine = [entry for entry in log if entry.owner == transaction.name]
            for entry in mine:
                entry.state = Outcome.COMMITTED if kept else Outcome.ABORTED
            log.append(_Entry("", "", Outcome.ABORTED))
            if kept and self._makes(RECORD_IS_LOST):
                mine[0].state = Outcome.ABORTED

    def _visible(self, number: int, begin: int) -> tuple[list[tuple[int, str]], int]:
        """The records that a read_committed reader gets from an offset on, and the offset where they end."""
        log = self._logs[number]
        stable = next((offset for offset, entry in enumerate(log) if entry.state is None), len(log))
        end = len(log) if self._mistake == OPEN_ARE_READ else stable
        records = [
            (offset, entry.value)
            for offset, entry in enumerate(log[:end])
            if offset >= begin
            and entry.value
            and (entry.state is not Outcome.ABORTED or self._mistake == ABORTED_ARE_READ)
        ]
        return records, max(begin, end)

    def _observe(self) -> None:
        for number in self._logs:
            mine = self._reader_positions()
            records, end = self._visible(number, mine[number])
            if end == mine[number] < len(self._logs[number]) and self._makes(READERS_SKIP):
                end = len(self._logs[number])
            mine[number] = end
            self._read += [Observed(number, offset, value, self._now_ns) for offset, value in records]

    def _reader_positions(self) -> dict[int, int]:
        return self._positions["the reader"]


def history_of(seed: int, mistake: str = "") -> History:
    """What the clients of one simulated run saw."""
    return TransactionModel(seed, mistake).run()


EXPECTED: Mapping[str, frozenset[str]] = {
    ABORTED_ARE_READ: frozenset({"aborted record"}),
    OPEN_ARE_READ: frozenset({"open record"}),
    RECORD_IS_LOST: frozenset({"lost commit", "torn transaction"}),
    MARKER_IS_WRONG: frozenset({"lost commit", "torn transaction"}),
    ZOMBIES_COMMIT: frozenset({"aborted record"}),
    OFFSETS_COUNT_ALWAYS: frozenset({"consumed offsets"}),
    RECORD_IS_DOUBLED: frozenset({"record that is there twice"}),
    ORDER_IS_LOST: frozenset({"record in the wrong place"}),
    READERS_SKIP: frozenset({"reader that differs"}),
}
"""Mistake -> the names that the judge may give it."""
