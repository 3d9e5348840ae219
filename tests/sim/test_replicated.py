"""Runs of replicated partitions in the simulated world: a slice of seeds, and a planted defect that the judges find."""

import pytest

from kafka_zk.sim.replicated import play_replicated
from tests.sim.replication_safeguards import play_replicated_without

SEEDS = 3

pytestmark = pytest.mark.integration  # half a minute of work, if of no process


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_slice_of_seeds(seed: int) -> None:
    outcome = play_replicated(seed)
    assert not outcome.violations, "\n".join(outcome.violations[:5])
    assert outcome.simulated_ms >= 60_000 and outcome.operations >= 200


def test_a_watermark_over_too_few_is_found() -> None:
    found = play_replicated_without("watermark_of_the_leader_alone", 0).violations
    assert any("was acknowledged at" in each for each in found)


def test_a_seed_is_the_same_history_again() -> None:
    assert play_replicated(1).history.digest() == play_replicated(1).history.digest()
