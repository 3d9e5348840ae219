"""Runs of the simulated world: a slice of seeds, the same history twice, and planted defects that the judges find."""

from functools import partial

import pytest

from kafka_zk.sim.campaign.plan import Fault
from kafka_zk.sim.campaign.run import play
from kafka_zk.storage.files import files
from tests.sim.safeguards import SAFEGUARDS
from tests.sim.taken_out import play_without

SEEDS = 4
"""Number of seeds to play here; ``make sim`` plays hundreds."""
PER_TEST = 2

pytestmark = pytest.mark.integration  # a minute of work in one process


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_a_slice_of_seeds(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        outcome = play(seed)
        assert not outcome.violations, f"python -m tests.sim --seed {seed}\n" + "\n".join(outcome.violations[:5])
        assert outcome.simulated_ms >= 60_000 and outcome.operations >= 200 and len(outcome.plan) >= 3


def test_a_plan_is_what_it_was_when_it_is_read_again() -> None:
    fault = Fault(12_000, "kill", "broker-1", 3_000)
    assert Fault.parse(str(fault)) == fault
    with pytest.raises(ValueError, match="there are: kill"):
        Fault.parse("1 explode broker-1 0")


def test_a_disk_that_syncs_nothing_loses_acknowledged_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "sync_path", lambda path: None)
    plans = [[Fault(at_ms, "power", f"broker-{number}", 1_000)] for at_ms in (20_000, 40_000) for number in (1, 2, 3)]
    assert any("was acknowledged at" in each for plan in plans for each in play(1, plan).violations)


@pytest.mark.soak
def test_a_broker_that_forgets_its_producers_takes_a_repetition_for_a_new_batch() -> None:
    """The broker dies while its responses are slow: producers send batches again that are already in the log."""
    plan = [
        fault
        for number, at_ms in ((1, 8_000), (2, 20_000), (3, 32_000), (1, 44_000))
        for fault in (
            Fault(at_ms, "slow", f"broker-{number}", 3_000),
            Fault(at_ms + 2_000, "kill", f"broker-{number}", 500),
        )
    ]
    found = play_without(SAFEGUARDS["no_producer_replay"], partial(play, plan=plan), 1).violations
    assert any("is in the log 2 times" in each for each in found), found
