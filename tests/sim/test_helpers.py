"""Helper processes of the simulated world, and the cleaner's use of them."""

from random import Random
from typing import Any

import pytest

from kafka_zk.native.loading import Implementation
from kafka_zk.sim.campaign.faults import DRAWN
from kafka_zk.sim.campaign.run import COMPACTED, Run, play
from kafka_zk.sim.machine.helpers import SimHelper, SimHelpers
from kafka_zk.sim.machine.process import Process
from kafka_zk.sim.machine.scheduler import Scheduler
from kafka_zk.sim.world.history import Acked
from kafka_zk.storage.cleaner.offset_map import Replaced
from kafka_zk.storage.cleaner.record_filter import LastOffsetOf, choose
from kafka_zk.storage.files.helper_process import DONE, FAILED, PROGRESS, Report


class Counting:
    """Work that counts its messages."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def run(self, report: Report) -> str:
        report(1)
        if self.fails:
            raise OSError("no")
        report(2)
        return "counted"


def test_a_helper_says_what_its_work_reports_and_then_how_it_ended() -> None:
    helper = SimHelper(1)
    helper.begin(Counting())
    assert [helper.receive() for _ in range(3)] == [(PROGRESS, 1), (PROGRESS, 2), (DONE, "counted")]
    helper.begin(Counting(fails=True))
    assert [helper.receive()[0] for _ in range(2)] == [PROGRESS, FAILED]


def test_a_helper_that_was_killed_says_nothing_more() -> None:
    helper = SimHelper(1)
    helper.begin(Counting())
    helper.process.kill()
    with pytest.raises(EOFError):
        helper.receive()
    with pytest.raises(ConnectionError):
        helper.begin(Counting())


def test_a_killed_process_hears_of_no_helper() -> None:
    scheduler = Scheduler(1)
    process = Process("p", scheduler, Random(1), lambda failure: None)
    heard: list[None] = []
    SimHelpers(process, Random(1)).when_readable(1).addCallback(heard.append)
    process.kill()
    scheduler.run_for(1_000)
    assert not heard


@pytest.mark.integration
def test_a_run_compacts_and_a_cleaner_that_drops_too_much_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(3, (), DRAWN)
    with run.world as world:
        run.begin()
        world.run_for(20_000)
        run.make_peace()
        logs, _ = run.settle()
        acked = [fact for fact in run.history.facts if isinstance(fact, Acked) and fact.tp.topic == COMPACTED]
        assert sum(len(found) for tp, found in logs.items() if tp.topic == COMPACTED) < len(acked) / 2
        run.stop()

    def drops_the_last_as_well(last_offset_of: LastOffsetOf, *rest: Any, replaced: Replaced) -> Any:
        return choose(lambda key: last_offset_of(key) + 1, *rest)

    monkeypatch.setattr("kafka_zk.storage.cleaner.cleaner.implementation", lambda: Implementation(None))
    monkeypatch.setattr("kafka_zk.storage.cleaner.record_loops.choose", drops_the_last_as_well)
    assert any("no later record of its key" in each for each in play(3, ()).violations)
