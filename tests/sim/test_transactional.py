"""Runs of transactions in the simulated world: a slice of seeds, and planted defects that the judge finds."""

from functools import partial

import pytest

from tests.sim.taken_out import play_without
from tests.sim.transaction_safeguards import SAFEGUARDS, play_transactional_without
from tests.sim.transactional import play_transactional

pytestmark = pytest.mark.integration  # seconds of work in one process


SLICE_MS = 15_000


def test_a_slice_of_a_seed() -> None:
    outcome = play_transactional(0, faults_ms=SLICE_MS)
    assert not outcome.violations, "\n".join(outcome.violations[:5])
    assert any(" transactions (" in line for line in map(str, outcome.history.facts))


@pytest.mark.soak
def test_a_commit_that_another_coordinator_finishes() -> None:
    assert not play_transactional(0, kinds=("unfinished-commits",)).violations
    take_out = SAFEGUARDS["commits_become_aborts"]
    found = play_without(take_out, partial(play_transactional, kinds=("unfinished-commits",)), 0).violations
    assert any(each.startswith("lost commit") for each in found), found


@pytest.mark.soak
@pytest.mark.parametrize(
    ("safeguard", "seed", "said"),
    [
        ("stable_is_the_high_watermark", 1, "open record"),
        ("aborted_are_not_told", 1, "aborted record"),
        ("offsets_count_at_once", 2, "consumed offsets"),
    ],
)
def test_a_missing_safeguard_is_found(safeguard: str, seed: int, said: str) -> None:
    found = play_transactional_without(safeguard, seed).violations
    assert any(each.startswith(said) for each in found), found
