"""The judge of transactions finds each mistake of a model, and none in a model without mistakes."""

from typing import Any

import pytest

from tests.sim.transaction_judge import NEVER, Append, History, Outcome, Poll, Transaction, faults, transactions_of
from tests.soak import transaction_model

SEEDS = range(40)


def test_nothing_is_wrong_without_a_mistake() -> None:
    for seed in SEEDS:
        assert faults(transaction_model.history_of(seed)) == [], seed


@pytest.mark.parametrize("mistake", transaction_model.MISTAKES)
def test_every_mistake_is_found(mistake: str) -> None:
    """The judge gives the mistake the right name in at least nine of ten runs."""
    found = [faults(transaction_model.history_of(seed, mistake)) for seed in SEEDS]
    expected = transaction_model.EXPECTED[mistake]
    by_name = [any(each.partition(" (")[0] in expected for each in said) for said in found]
    assert sum(by_name) >= 0.9 * len(SEEDS), found[by_name.index(False)]


def transaction(name: str, *appends: Append, at: tuple[int, int] = (0, 10), reads: tuple[str, ...] = ()) -> Transaction:
    polls = tuple(Poll(9, 0, 0, ((0, value),), at[0]) for value in reads)
    return Transaction(name, name, at[0], appends, polls, Outcome.COMMITTED, at[0], at[1])


def said(*transactions: Transaction, final: dict[int, list[tuple[int, str]]]) -> list[str]:
    history = History(transactions, {}, {9: [], **final}, {})
    return [each.partition(" (")[0] for each in faults(history)]


def test_a_transaction_before_one_that_had_ended_is_a_write_cycle() -> None:
    """Two transactions that were open at the same time may be in any order."""
    first, second = Append(0, "a", 1), Append(0, "b", 21)
    final = {0: [(0, "b"), (1, "a")]}
    assert "write cycle" in said(transaction("t", first), transaction("u", second, at=(20, 30)), final=final)
    assert "write cycle" not in said(transaction("t", first), transaction("u", second, at=(5, 30)), final=final)


def test_two_transactions_that_read_each_other_are_a_read_cycle() -> None:
    final = {0: [(0, "a"), (1, "b")]}
    each_other = [transaction("t", Append(0, "a", 1), reads=("b",)), transaction("u", Append(0, "b", 1), reads=("a",))]
    assert "read cycle" in said(*each_other, final=final)
    one_way = [transaction("t", Append(0, "a", 1)), transaction("u", Append(0, "b", 1), reads=("a",))]
    assert "read cycle" not in said(*one_way, final=final)


def test_a_record_behind_a_later_one_is_out_of_time() -> None:
    """The record was acknowledged before the other record was sent, but follows it in the log."""
    appends = [Append(0, "a", 1, acknowledged_ns=2), Append(0, "b", 3)]
    writers = [transaction(name, append) for name, append in zip("tu", appends, strict=True)]
    assert "order of time" in said(*writers, final={0: [(0, "b"), (1, "a")]})
    assert "order of time" not in said(*writers, final={0: [(0, "a"), (1, "b")]})


def event(kind: str, at: int, **more: Any) -> dict[str, Any]:
    return {"event": kind, "at": at, **more}


def life(at: int, *ends: dict[str, Any]) -> list[dict[str, Any]]:
    send = event("send", at + 2, partition=0, value=f"v{at}")
    return [event("init", at, **{"from": at - 1}), event("begin", at + 1), send, *ends]


@pytest.mark.parametrize(
    ("ends", "successor_at", "outcome"),
    [
        ([event("commit", 5), event("committed", 9)], 100, Outcome.COMMITTED),
        ([event("commit", 5), event("failed", 9)], 100, Outcome.UNKNOWN),
        ([event("commit", 5)], 7, Outcome.UNKNOWN),
        ([event("commit", 9)], 5, Outcome.ABORTED),
        ([event("commit", 5), event("aborted", 9)], 100, Outcome.ABORTED),
        ([], 100, Outcome.ABORTED),
    ],
    ids=["committed", "not known", "killed", "fenced before it asked", "aborted after a failure", "never asked"],
)
def test_what_the_journal_of_a_client_says(ends: list[dict[str, Any]], successor_at: int, outcome: Outcome) -> None:
    (first, second) = transactions_of({"p/0": life(1, *ends), "p/1": life(successor_at)})
    assert (first.outcome, first.appends) == (outcome, (Append(0, "v1", 3),))
    assert (second.name, second.outcome, second.commit_ns) == ("p/1/0", Outcome.ABORTED, NEVER)
