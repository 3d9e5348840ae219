"""Runs of replicated partitions in the simulated world: a slice of seeds, and a planted defect that the judges find."""

from functools import partial

import pytest

from kafka_zk.sim.campaign.plan import Fault
from tests.sim.replicated import REPLICATION_FAULTS, play_replicated
from tests.sim.replication_safeguards import SAFEGUARDS, play_replicated_without
from tests.sim.taken_out import play_without

SEEDS = 2

pytestmark = pytest.mark.integration  # half a minute of work in one process


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_slice_of_seeds(seed: int) -> None:
    outcome = play_replicated(seed)
    assert not outcome.violations, "\n".join(outcome.violations[:5])
    assert outcome.simulated_ms >= 60_000 and outcome.operations >= 200


@pytest.mark.parametrize(
    ("safeguard", "said"),
    [
        ("watermark_of_the_leader_alone", "have it: logs end at"),
        ("no_flush_of_followers", "durable up to"),
    ],
)
def test_a_missing_safeguard_is_found(safeguard: str, said: str) -> None:
    found = play_replicated_without(safeguard, 0).violations
    assert any(said in each for each in found), found


@pytest.mark.soak
@pytest.mark.parametrize(
    ("safeguard", "seed", "kinds"),
    [
        ("older_leader_epochs_are_taken", 1, ("late-orders",)),
        ("joins_without_having_caught_up", 2, REPLICATION_FAULTS),
        ("no_min_insync_replicas", 2, ("kill", "pause", "power")),
        ("leader_epochs_stay", 0, REPLICATION_FAULTS),
        ("no_shrinking", 0, ("lag",)),
        ("whoever_lives_is_elected", 0, ("outlived",)),
        ("controllers_are_not_fenced", 3, ("depose",)),
        ("unclean_starts_are_not_announced", 0, ("unnoticed",)),
        ("whoever_lost_power_stays_in_sync", 0, ("unnoticed",)),
        ("the_first_of_the_isr_is_elected", 0, ("unnoticed",)),
        ("compaction_goes_beyond_the_recovery_point", 0, ("unsynced", "kill", "power", "outlived")),
    ],
)
def test_a_missing_safeguard_is_found_by_its_seed(safeguard: str, seed: int, kinds: tuple[str, ...]) -> None:
    found = play_without(SAFEGUARDS[safeguard], partial(play_replicated, kinds=kinds), seed).violations
    assert found


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["lag", "outlived", "depose", "unnoticed", "unsynced"])
def test_a_sequence_of_faults_finds_nothing_in_the_product_as_it_is(kind: str) -> None:
    outcome = play_replicated(0, kinds=(kind,))
    assert not outcome.violations, "\n".join(outcome.violations[:5])


UNSYNCED = [Fault(5_000 + 17_000 * turn, "unsynced", f"broker-{turn + 1}", 0) for turn in range(3)]
UNNOTICED = [Fault(at_ms, "unnoticed", "broker-1", 0) for at_ms in (8_000, 24_000, 40_000)]


@pytest.mark.parametrize(
    ("plan", "safeguard"),
    [(UNNOTICED, "whoever_comes_back_leads_on"), (UNSYNCED, "recovery_keeps_every_gap")],
    ids=["unnoticed", "unsynced"],
)
def test_power_losses_cost_no_acknowledged_record(plan: list[Fault], safeguard: str) -> None:
    """Some losses are not seen by any controller, and some destroy closed segments that were not synced."""
    outcome = play_replicated(0, plan)
    assert not outcome.violations, "\n".join(outcome.violations[:5])
    assert play_without(SAFEGUARDS[safeguard], lambda seed: play_replicated(seed, plan), 0).violations


def test_orders_that_come_late_are_ignored() -> None:
    """The connection over which they were sent is closed by then, but delayed data still arrive."""
    outcome = play_replicated(1, [Fault(7_200, "late-orders", "broker-3", 3_000)])
    assert not outcome.violations
    assert any("ControllerIgnored" in line for line in map(str, outcome.history.facts))
