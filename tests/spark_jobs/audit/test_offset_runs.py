"""Runs, compared with plain counting of offsets."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.spark_jobs.audit import offset_runs
from kafka_zk.spark_jobs.audit.offset_runs import Offsets

FILES = st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=30), min_size=1, max_size=6)


def offsets_of(runs: tuple[Offsets, Offsets]) -> list[int]:
    return sorted(offset for first, last in zip(*runs, strict=True) for offset in range(first, last + 1))


@given(st.lists(st.integers(-5, 40), max_size=60))
def test_split_keeps_every_copy(offsets: list[int]) -> None:
    assert offsets_of(offset_runs.split(np.array(offsets, np.int64))) == sorted(offsets)


@given(FILES)
def test_united_runs_are_few_and_keep_every_copy(parts: list[list[int]]) -> None:
    runs = offset_runs.united([offset_runs.split(np.array(offsets, np.int64)) for offsets in parts])
    every = [offset for offsets in parts for offset in offsets]
    assert offsets_of(runs) == sorted(every)
    assert not {*(runs[1] + 1).tolist()} & {*runs[0].tolist()}


@given(FILES)
def test_gaps_and_overlaps_are_those_that_counting_finds(files: list[list[int]]) -> None:
    pieces = [(number, *offset_runs.split(np.array(offsets, np.int64))) for number, offsets in enumerate(files)]
    judged = offset_runs.judge(offset_runs.joined(pieces))
    counts = Counter(offset for offsets in files for offset in offsets)
    assert (judged.rows, judged.distinct) == (counts.total(), len(counts))
    assert offsets_of(judged.covered) == sorted(counts)
    gaps = offsets_of((judged.gaps.firsts, judged.gaps.lasts))
    assert gaps == [offset for offset in range(judged.first, judged.last + 1) if offset not in counts]
    twice = {offset for each in judged.overlaps for offset in range(each.first, each.last + 1)}
    assert twice == {offset for offset, count in counts.items() if count > 1}
    for each in judged.overlaps:
        assert {*range(each.first, each.last + 1)} <= {*files[each.file]} & {*files[each.other]}
    for first, last, before, after in zip(*judged.gaps, strict=True):
        assert first - 1 in files[before] and last + 1 in files[after]


@given(st.sets(st.integers(0, 60), min_size=1), st.lists(st.integers(-5, 70)))
def test_not_covered_is_the_difference(covered: set[int], offsets: list[int]) -> None:
    runs = offset_runs.split(np.array(sorted(covered), np.int64))
    found = offset_runs.not_covered(np.array(offsets, np.int64), runs)
    assert found.tolist() == [offset for offset in offsets if offset not in covered]


@given(st.sets(st.integers(0, 60)), st.integers(1, 9))
def test_neighbours_hold_all_offsets_and_no_wide_gap(offsets: set[int], distance: int) -> None:
    joined = offset_runs.neighbours(*offset_runs.split(np.array(sorted(offsets), np.int64)), distance)
    assert offsets <= {*offsets_of(joined)}
    assert all(first - last > distance for first, last in zip(joined[0][1:], joined[1], strict=False))
