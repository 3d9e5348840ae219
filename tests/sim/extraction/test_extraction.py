"""Runs of the extraction in the simulated world: a slice of seeds, and planted defects that the judge finds."""

import pytest

from kafka_zk.base.types import TopicPartition
from tests.sim.extraction.drivers import play_extraction
from tests.sim.extraction.extraction_safeguards import SAFEGUARDS, play_extraction_without
from tests.sim.extraction.memory_lake import faults, gaps

SEEDS = 28
PER_TEST = 7
SLEPT_OVER_OTHERS = 722
"""A seed in which a driver is paused between its claim and its check of leftovers, while others extract."""
T0 = TopicPartition("t", 0)


@pytest.mark.integration  # seconds of work in one process
@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_a_slice_of_seeds(first: int) -> None:
    published = 0
    for seed in range(first, first + PER_TEST):
        outcome = play_extraction(seed)
        assert not outcome.violations, f"seed {seed}\n" + "\n".join(outcome.violations[:5])
        published += sum("records, an earlier run left" in line for line in map(str, outcome.history.facts))
    assert published >= 10 * PER_TEST, "too little was done"


@pytest.mark.soak
@pytest.mark.parametrize("safeguard", SAFEGUARDS)
def test_a_missing_safeguard_is_found(safeguard: str) -> None:
    seeds = (*range(200), SLEPT_OVER_OTHERS)
    assert any(play_extraction_without(safeguard, seed).violations for seed in seeds)


def test_a_run_that_slept_over_others_repeats_nothing() -> None:
    """An earlier version stored records twice in a table."""
    assert not play_extraction(SLEPT_OVER_OTHERS).violations
    assert play_extraction_without("claims_are_not_checked", SLEPT_OVER_OTHERS).violations


def test_a_seed_is_the_same_history_again() -> None:
    assert play_extraction(1).history.digest() == play_extraction(1).history.digest()


def test_the_judge_finds_what_is_there_twice_early_or_not_at_all() -> None:
    shown = [(T0, offset) for offset in range(3)]
    assert not faults(shown, {T0: 3}, leads=False) and not gaps(shown, {T0: 3})
    assert faults([*shown, (T0, 2)], {T0: 3}, leads=True) == ["t-0: 1 records are there twice, from offset 2 on"]
    assert faults(shown, {T0: 2}, leads=False) == ["t-0: offset 2 is there, and the group is at 2"]
    assert not faults(shown, {T0: 2}, leads=True)
    assert gaps(shown[1:], {T0: 3}) == ["t-0: 1 of 3 records are lost, first 0"]
