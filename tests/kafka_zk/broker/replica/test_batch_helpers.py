"""The lanes of helper processes: order, disconnected clients, a helper that dies, and the broker's end."""

from collections.abc import Callable, Iterator
from pathlib import Path
from pickle import PickleBuffer
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.base.client_gone import ClientGone
from kafka_zk.base.turns import TURN_COST, Turns
from kafka_zk.base.types import TimestampOffset
from kafka_zk.broker.replica import batch_helpers
from kafka_zk.broker.replica.batch_helpers import IDLE_S, BatchHelpers
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.sim.machine.scheduler import VirtualClock as Clock
from kafka_zk.storage.files.errors import InvalidRecord
from kafka_zk.storage.files.helper_process import Helper
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.batch_work import ConformWork
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.segments.timestamp_search import SearchWork
from tests.storage.helpers import T0, append, batch, new_log

R = TypeVar("R")

SAME = ConformWork(PickleBuffer(batch(2)), LogConfig(compression_type="uncompressed"), T0)


class Threads:
    """Work given to threads, which runs only when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], object], Deferred[Any]]] = []

    def run(self, work: Callable[[], R]) -> "Deferred[R]":
        self.waiting.append((work, Deferred()))
        return self.waiting[-1][1]

    def finish_one(self) -> None:
        work, done = self.waiting.pop(0)
        work()
        done.callback(None)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def threads() -> Threads:
    return Threads()


@pytest.fixture
def helpers(clock: Clock, threads: Threads) -> Iterator[BatchHelpers]:
    made = BatchHelpers(clock, threads.run)
    yield made
    made.close()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    made = new_log(tmp_path)
    append(made, batch(2, timestamps=[T0, T0 + 1]))
    return made


def search(log: Log) -> SearchWork:
    return SearchWork(0, log.size_bytes, T0 + 1, 0)


def outcome(waiting: "Deferred[Any]") -> list[Any]:
    """The result is appended to the list; for a failure, its exception."""
    results: list[Any] = []
    waiting.addCallbacks(results.append, lambda failure: results.append(failure.value))
    return results


def test_readers_do_not_keep_producers_waiting(helpers: BatchHelpers, threads: Threads, log: Log) -> None:
    """Readers and producers each have a helper, which does one work item at a time, in order."""
    segment = log.segments.active
    reads = [outcome(helpers.run_on(segment, search(log))) for _ in range(3)]
    append_work = outcome(helpers.run(SAME))
    assert len(threads.waiting) == 2
    threads.waiting.reverse()
    threads.finish_one()
    assert append_work == [None] and reads == [[], [], []]
    for number in range(3):
        assert [bool(read) for read in reads] == [each < number for each in range(3)]
        threads.finish_one()
    assert reads == [[TimestampOffset(T0 + 1, 1, 0)]] * 3
    assert not segment.is_pinned and not threads.waiting


def test_what_is_wrong_with_a_batch_comes_back(helpers: BatchHelpers, threads: Threads) -> None:
    broken = batch(2, compression="gzip")
    del broken[70:]
    found = outcome(helpers.run(SAME._replace(batch=PickleBuffer(broken), config=LogConfig(compression_type="lz4"))))
    threads.finish_one()
    assert isinstance(found[0], InvalidRecord)


def test_work_for_a_client_that_is_gone_is_not_done(helpers: BatchHelpers, threads: Threads, log: Log) -> None:
    """Waiting work is dropped, the result of current work is discarded, and the file is released."""
    segment = log.segments.active
    waits = [helpers.run_on(segment, search(log)) for _ in range(3)]
    results = [outcome(wait) for wait in waits]
    waits[0].abandon()
    waits[1].abandon()
    assert [type(result[0]) for result in results[:2]] == [ClientGone] * 2
    threads.finish_one()
    threads.finish_one()
    assert results[2] == [TimestampOffset(T0 + 1, 1, 0)]
    assert not threads.waiting and not segment.is_pinned


def test_a_helper_that_dies_costs_one_request_an_error(
    helpers: BatchHelpers, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next request gets a new helper; the same holds for a request that finds the helper dead."""
    begin = Helper.begin

    def die(self: Helper, work: object, descriptor: int) -> None:
        self.process.kill()
        self.process.wait()
        begin(self, work, descriptor)

    for dying in (True, False, True, False):
        monkeypatch.setattr(Helper, "begin", die if dying else begin)
        found = outcome(helpers.run(SAME))
        threads.finish_one()
        if dying:
            assert isinstance(found[0], ApiError) and found[0].code == ErrorCode.REQUEST_TIMED_OUT
        else:
            assert found == [None]
    helper = helpers._for_producers._helper
    assert helper is not None
    helper.process.kill()
    helper.process.wait()
    found = outcome(helpers.run(SAME))
    threads.finish_one()
    assert found == [None]


def test_a_helper_that_does_not_answer_is_ended(
    helpers: BatchHelpers, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_helpers, "LONGEST_WORK_S", 0)
    monkeypatch.setattr(Helper, "begin", lambda self, work, descriptor: None)
    found = outcome(helpers.run(SAME))
    threads.finish_one()
    assert isinstance(found[0], ApiError)
    assert helpers._for_producers._helper is None


def test_an_idle_helper_ends(helpers: BatchHelpers, threads: Threads, clock: Clock) -> None:
    """The helper ends after an idle time; until then it serves the next work."""
    processes = []
    for _ in range(2):
        helpers.run(SAME)
        threads.finish_one()
        helper = helpers._for_producers._helper
        assert helper is not None
        processes.append(helper.process)
        clock.advance(IDLE_S / 2)
    assert processes[0] is processes[1] and processes[0].poll() is None
    clock.advance(IDLE_S)
    assert processes[0].poll() is not None and not clock.getDelayedCalls()


def test_a_broker_that_ends_takes_its_helpers_along(
    helpers: BatchHelpers, threads: Threads, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every waiting request gets an error, whether its work had begun or not."""
    helpers.run(SAME)
    threads.finish_one()
    helper = helpers._for_producers._helper
    assert helper is not None
    waiting = [outcome(helpers.run(SAME)) for _ in range(2)]
    waiting.append(outcome(helpers.run_on(log.segments.active, search(log))))
    helpers.close()
    waiting.append(outcome(helpers.run(SAME)))
    while threads.waiting:
        threads.finish_one()
    assert [result[0].code for result in waiting] == [ErrorCode.REQUEST_TIMED_OUT] * 4
    assert helper.process.poll() is not None and not log.segments.active.is_pinned
    assert helpers._for_readers._helper is None


def test_turns_are_given_by_cost(clock: Clock) -> None:
    """The turn comes before the work that exceeds the cost of one turn."""
    turns = Turns(clock)
    assert outcome(Deferred.fromCoroutine(turns.spend(TURN_COST))) == [None]
    for _ in range(2):
        found = outcome(Deferred.fromCoroutine(turns.spend(TURN_COST)))
        assert not found
        clock.advance(0)
        assert found == [None]
