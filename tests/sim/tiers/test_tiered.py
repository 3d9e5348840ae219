"""Runs of tiered topics in the simulated world, with all faults of the object store, and a seed twice."""

import pytest

from kafka_zk.sim.campaign.plan import Fault
from tests.sim.tiers.tier_safeguards import SAFEGUARDS, play_tiered_without
from tests.sim.tiers.tiered import play_away, play_tiered

pytestmark = pytest.mark.integration  # seconds of work in one process

STORE_FAULTS = [
    Fault(2_000 + 3_000 * number, f"store-{kind}", "store", 3_000)
    for number, kind in enumerate(("fails", "loses", "stale", "hangs", "away"))
]


def test_a_store_with_all_its_faults() -> None:
    """Faults of the store and a killed broker violate no promise."""
    outcome = play_tiered(1, [*STORE_FAULTS, Fault(9_000, "kill", "broker-1", 3_000)])
    assert not outcome.violations, "\n".join(outcome.violations[:5])
    assert outcome.operations >= 200
    assert any("tiers: " in line for line in map(str, outcome.history.facts))


@pytest.mark.soak
def test_a_seed_gives_one_history() -> None:
    assert play_tiered(2).history.digest() == play_tiered(2).history.digest()


@pytest.mark.soak
@pytest.mark.parametrize("safeguard", SAFEGUARDS)
def test_a_missing_safeguard_is_found(safeguard: str) -> None:
    assert any(play_tiered_without(safeguard, seed).violations for seed in range(5))


@pytest.mark.soak
def test_an_hour_without_the_store() -> None:
    """Records are acknowledged in time; the brokers keep what they cannot copy, and log this once per partition."""
    outcome = play_away(1)
    assert not outcome.violations, "\n".join(outcome.violations[:5])
