"""A simulated process: its clock, its timers, and its faults."""

from random import Random

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.python.failure import Failure

from kafka_zk.clients.connection.errors import NoBrokersAvailable
from kafka_zk.sim.machine.process import Process
from kafka_zk.sim.machine.scheduler import Scheduler
from kafka_zk.sim.world.clients import make_admin
from kafka_zk.sim.world.world import World


class Made:
    def __init__(self) -> None:
        self.scheduler = Scheduler(1)
        self.failures: list[Failure] = []
        self.process = Process("p", self.scheduler, Random(1), self.failures.append, epoch_ms=1_000_000)
        self.seen: list[object] = []

    def see(self, what: object) -> None:
        self.seen.append(what)


def test_timers_come_in_order_and_may_be_cancelled_and_moved() -> None:
    made = Made()
    made.process.callLater(3, made.see, "late")
    made.process.callLater(1, made.see, "cancelled").cancel()
    moved = made.process.callLater(1, made.see, "moved")
    moved.reset(4)
    made.process.callLater(2, made.see, "early")
    made.scheduler.run_for(10_000)
    assert made.seen == ["early", "late", "moved"] and not moved.active()


def test_a_timer_fires_after_its_time_never_before() -> None:
    """If it fired early, a caller that counts whole milliseconds would wait for the same millisecond in an endless
    loop.
    """
    made = Made()
    due = 6.411
    made.process.callLater(due, lambda: made.see(int(made.process.seconds() * 1000)))
    made.scheduler.run_for(10_000)
    assert made.seen == [6411]


def test_what_waited_for_a_paused_process_comes_after_its_own_timers() -> None:
    made = Made()
    made.process.callLater(1, made.see, "timer")
    made.process.pause()
    made.process.receive(lambda: made.see("message"))
    made.scheduler.run_for(5_000)
    assert not made.seen
    made.process.resume()
    assert made.seen == ["timer", "message"]


def test_a_killed_process_does_nothing_more() -> None:
    made = Made()
    made.process.callLater(1, made.see, "timer")
    made.process.run_in_thread(lambda: made.see("work"))
    made.process.kill()
    made.process.receive(lambda: made.see("message"))
    made.scheduler.run_for(5_000)
    assert not made.seen


def test_work_in_a_thread_takes_time_and_brings_its_result_or_error() -> None:
    made = Made()
    made.process.run_in_thread(lambda: 7).addCallback(made.see)
    made.process.run_in_thread(lambda: 1 // 0).addErrback(lambda failure: made.see(failure.type))
    assert not made.seen
    made.scheduler.run_for(10)
    assert sorted(map(str, made.seen)) == ["7", str(ZeroDivisionError)]


def test_its_clock_runs_at_a_rate_of_its_own_and_its_wall_clock_can_be_set() -> None:
    made = Made()
    made.scheduler.run_for(1_000)
    made.process.set_clock(rate=2.0, jump_ms=-500)
    made.process.callLater(2, made.see, "timer")
    made.scheduler.run_for(999)
    assert not made.seen
    made.scheduler.run_for(2)
    assert made.seen == ["timer"]
    assert abs(made.process.seconds() - 3.002) < 0.001 and abs(made.process.wall_ms() - 1_002_502) <= 1


def test_what_a_timer_raises_is_told_and_the_others_come() -> None:
    made = Made()
    made.process.callLater(1, lambda: 1 // 0)
    made.process.callLater(2, made.see, "next")
    made.scheduler.run_for(5_000)
    assert made.seen == ["next"] and made.failures[0].check(ZeroDivisionError)


def test_a_process_that_ends_as_it_wakes_up_keeps_no_session() -> None:
    """A broker that gave up in its first step after a pause once stayed registered in ZooKeeper."""
    with World(1) as world:
        world.broker(1)
        world.start_all()
        broker = world.brokers[1]
        broker.pause()
        assert broker.process is not None
        broker.process.callLater(0.1, broker.kill)
        world.run_for(2_000)
        broker.resume()
        world.run_for(20_000)
        assert not world.zookeeper.sessions


def test_a_host_that_is_up_again_resets_the_connections_of_its_former_life() -> None:
    with World(1) as world:
        world.broker(1)
        world.start_all()
        admin = make_admin(world, world.process("admin"))
        world.run(admin.list_topics())
        world.brokers[1].lose_power()
        world.run_for(10_000)
        world.brokers[1].start()
        world.until(lambda: world.brokers[1].is_started)
        with pytest.raises(NoBrokersAvailable, match="the other side was lost"):
            world.run(admin.list_topics(), 5_000)  # far less than its request timeout
        world.run(admin.list_topics(), 5_000)
        world.run(ensureDeferred(admin.close()))
