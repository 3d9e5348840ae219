"""The judges of group rounds, without any broker: they accept correct histories and find each planted fault.

They run in `make test`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.peers.groups.group_history import Acknowledged, Assigned, Commit, Generation, History, faults
from tests.peers.groups.mixed_group import Position

_A, _B = "a-1", "b-2"


def _right() -> History:
    """Two members, then one of them alone."""
    written = {Position(partition, offset) for partition in range(2) for offset in range(10)}
    return History(
        written=written,
        handed=set(written),
        assigned=[
            Assigned("a", _A, 1, frozenset({0})),
            Assigned("b", _B, None, frozenset({1})),
            Assigned("a", _A, 2, frozenset({0, 1})),
        ],
        acknowledged=[Acknowledged("a", 0, 10), Acknowledged("b", 1, 4)],
        generations=[
            Generation(0, 1, {_A: frozenset({0}), _B: frozenset({1})}),
            Generation(3, 2, {_A: frozenset({0, 1})}),
            Generation(6, 3, {}),
        ],
        commits=[Commit(1, 0, 5), Commit(2, 1, 4), Commit(4, 0, 10), Commit(5, 1, 10)],
    )


def test_a_history_in_which_all_is_right_has_no_fault() -> None:
    assert faults(_right()) == []


def _lose(history: History) -> None:
    history.handed.remove(Position(1, 7))


def _own_twice(history: History) -> None:
    history.generations[0] = Generation(0, 1, {_A: frozenset({0, 1}), _B: frozenset({1})})


def _count_back(history: History) -> None:
    history.generations.append(Generation(9, 2, {_A: frozenset({0, 1})}))


def _assign_twice(history: History) -> None:
    history.generations.insert(1, Generation(1, 1, {_A: frozenset({1}), _B: frozenset({0})}))


def _give_another_share(history: History) -> None:
    history.assigned.append(Assigned("b", _B, None, frozenset({0, 1})))


def _give_share_of_another_generation(history: History) -> None:
    history.assigned.append(Assigned("a", _A, 2, frozenset({0})))


def _commit_back(history: History) -> None:
    history.commits.append(Commit(8, 0, 9))


def _forget_commit(history: History) -> None:
    history.acknowledged.append(Acknowledged("b", 1, 6))


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (_lose, "handed to no member: Position(partition=1, offset=7)"),
        (_own_twice, "partition 1 has two owners in generation 1"),
        (_count_back, "generation 2 is stored after 3"),
        (_assign_twice, "generation 1 is stored twice"),
        (_give_another_share, "b (b-2) was given [0, 1] in generation None"),
        (_give_share_of_another_generation, "a (a-1) was given [0] in generation 2"),
        (_commit_back, "goes back from 10 (a, record 4) to 9 (None, record 8)"),
        (_forget_commit, "b was told that 6 of partition 1 is committed"),
    ],
)
def test_a_planted_fault_is_found(plant: Callable[[History], None], said: str) -> None:
    history = _right()
    plant(history)
    assert any(said in fault for fault in faults(history)), faults(history)


def test_a_journal_says_what_was_assigned_handed_and_committed() -> None:
    history = History()
    history.add_journal(
        "a",
        [
            '{"event": "assigned", "at_ms": 1, "member": "a-1", "partitions": [3]}',
            '{"event": "handed", "at_ms": 2, "partition": 3, "offsets": [5, 6]}',
            '{"event": "committed", "at_ms": 3, "offsets": {"3": 7}}',
            '{"event": "revoked", "at_ms": 4, "partitions": [3]}',
        ],
    )
    assert history.assigned == [Assigned("a", "a-1", None, frozenset({3}))]
    assert history.handed == {Position(3, 5), Position(3, 6)}
    assert history.acknowledged == [Acknowledged("a", 3, 7)]
