"""Full loads describe all balanced assignments, and do not depend on the assignment they are computed from."""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.rebalance.balance import full_loads

THREADS = 4

audience_lists = st.lists(
    st.tuples(st.frozensets(st.integers(0, THREADS - 1), min_size=1), st.integers(0, 2)), min_size=1, max_size=3
)


@given(audience_lists)
def test_an_assignment_is_balanced_if_and_only_if_it_follows_the_full_loads(
    listed: list[tuple[frozenset[int], int]],
) -> None:
    """Assignments that follow the full loads have the smallest sum of squared counts."""
    audiences = [audience for audience, _ in listed]
    full = full_loads(audiences, [size for _, size in listed], THREADS)
    partitions = [audience for audience, size in listed for _ in range(size)]
    squares: dict[tuple[int, ...], int] = {}
    for owners in itertools.product(*(sorted(audience) for audience in partitions)):
        counts = Counter(owners)
        squares[owners] = sum(count * count for count in counts.values())
    least = min(squares.values())
    for owners, total in squares.items():
        counts = Counter(owners)
        follows = all(full[thread] - counts[thread] in (0, 1) or full[thread] == 0 for thread in range(THREADS))
        follows &= all(
            full[owner] == min(full[thread] for thread in audience)
            for owner, audience in zip(owners, partitions, strict=True)
        )
        assert follows == (total == least)


def test_members_that_read_little_and_many_that_read_much() -> None:
    """Thread 3 alone reads the other topic of thread 2; the topic of thread 4 has no partitions."""
    audiences = [frozenset({0, 1, 2}), frozenset({2, 3}), frozenset({4})]
    assert full_loads(audiences, [10, 3, 0], 5) == [4, 4, 4, 3, 0]
