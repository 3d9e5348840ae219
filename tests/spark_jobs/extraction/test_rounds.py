"""When rounds begin, which failures end them, and what Prometheus reads; without Spark, brokers and ZooKeeper."""

import sys
import threading
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock
from urllib.request import urlopen

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.errors import SessionLost
from kafka_zk.spark_jobs.errors import FetchFailed, Undecodable
from kafka_zk.spark_jobs.extraction import job
from kafka_zk.spark_jobs.extraction import rounds as module
from kafka_zk.spark_jobs.extraction.planning import Extraction, PartitionReport, Report
from kafka_zk.spark_jobs.extraction.round_metrics import RoundMetrics
from kafka_zk.spark_jobs.extraction.rounds import Round, Rounds
from kafka_zk.spark_jobs.source.cluster_client import EARLIEST, LATEST

TP = TopicPartition("t", 0)
IDLE = Report((PartitionReport("t", 0, 5, 5, 0, 0),), 0, 0, (), "nothing")
BEHIND = Report((PartitionReport("t", 0, 0, 5, 9, 4),), 5, 1, ("lake/range=x",), "nothing")


class World:
    """Working connections, and rounds that end as ``outcomes`` say (None: the round has records to extract); the last
    round stops the loop.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *outcomes: Report | Exception | None) -> None:
        self.opened = 0
        self.waits: list[float] = []
        self.done: list[Round] = []
        self._outcomes = list(outcomes)
        monkeypatch.setattr(module, "Connections", lambda *_: self)
        monkeypatch.setattr(module, "idle_report", lambda *_: self._next())
        extraction = Extraction(zookeeper="z", group="g", topics=("t",), target="/lake")
        self.rounds = Rounds(extraction, lambda: None, 30.0, tell=self._tell, clock=lambda: 100.0)
        monkeypatch.setattr(self.rounds._stop, "wait", self.waits.append)

    def __enter__(self) -> "World":
        self.opened += 1
        return self

    def __exit__(self, *_: object) -> None: ...

    def _next(self) -> Any:
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _tell(self, done: Round) -> None:
        self.done.append(done)
        if not self._outcomes:
            self.rounds.stop()


def test_a_round_that_left_records_behind_is_followed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, IDLE, BEHIND, BEHIND, IDLE)
    world.rounds.run()
    assert world.waits == [30.0, 30.0]
    assert world.opened == 1, "one session with ZooKeeper"


def test_a_signal_may_stop_them_at_any_point_of_a_wait() -> None:
    """A signal handler may run between any two steps of the interrupted code; here it is called at each call and return
    in it.
    """

    def interrupted_at(step: int) -> int:
        """Interrupt at this step; returns the number of steps."""
        steps = 0
        stop = module._Stop()

        def handler(*_: object) -> None:
            nonlocal steps
            steps += 1
            if steps == step:
                stop.ask()

        sys.setprofile(handler)
        try:
            stop.wait(1e-6)
        finally:
            sys.setprofile(None)
        return steps

    def everywhere() -> None:
        taken = interrupted_at(0)
        asked.extend(step for step in range(1, taken + 1) if interrupted_at(step))

    asked: list[int] = []
    thread = threading.Thread(target=everywhere, daemon=True)
    thread.start()
    thread.join(10.0)
    assert not thread.is_alive(), "the handler waits for what it has interrupted"
    assert len(asked) > 5


@pytest.mark.parametrize("error", [FetchFailed("brokers are away"), SessionLost("gone")])
def test_what_may_pass_is_tried_again_with_new_connections(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    world = World(monkeypatch, IDLE, error, IDLE)
    world.rounds.run()
    assert [each.failure for each in world.done] == [None, str(error), None]
    assert (world.waits, world.opened) == ([30.0, 30.0, 30.0], 2)


def test_the_target_is_checked_once_and_again_after_a_failed_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cause of the failure may have changed the target, too."""
    world = World(monkeypatch, None, None, FetchFailed("brokers are away"), None, None)
    checked: list[bool] = []

    def run(*_: object, checked: bool, asked: list[bool] = checked, **__: object) -> Report:
        asked.append(checked)
        return BEHIND

    monkeypatch.setattr(job, "run", run)
    monkeypatch.setattr(job, "started", lambda *_: (object(), 0.0))
    world.rounds.run()
    assert checked == [False, True, False, True]


@pytest.mark.parametrize(
    ("checked", "value_format", "looks"), [(False, None, 1), (True, None, 0), (True, "avro", 1), (False, "avro", 1)]
)
def test_a_run_looks_at_its_target_again_where_a_registry_may_have_changed_the_columns(
    monkeypatch: pytest.MonkeyPatch, checked: bool, value_format: str | None, looks: int
) -> None:
    lake, connections = Mock(), Mock()
    monkeypatch.setattr("kafka_zk.spark_jobs.extraction.lakes_by_format.Lakes", lambda *_: lake)
    monkeypatch.setattr(job, "run_blocking", lambda coroutine: BEHIND)
    monkeypatch.setattr(job, "ExtractionRun", Mock())
    extraction = Extraction(
        zookeeper="z", group="g", topics=("t",), target="/lake",
        value_format=value_format, schema_registry=value_format and "http://r",
    )
    assert job.run(object(), extraction, connections, checked=checked) is BEHIND
    assert lake.check.call_count == looks


@pytest.mark.parametrize("outcomes", [[FetchFailed("x")], [IDLE, Undecodable("x")], [IDLE, ZeroDivisionError("x")]])
def test_what_stays_and_a_failure_of_the_first_round_end_them(
    monkeypatch: pytest.MonkeyPatch, outcomes: list[Any]
) -> None:
    world = World(monkeypatch, *outcomes, IDLE)
    with pytest.raises(type(outcomes[-1])):
        world.rounds.run()


class Asked:
    """Connections to a cluster where partition 0 ends at offset 5; ``asked``: the ListOffsets requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, begins: int, offset: int | None) -> None:
        self.asked: list[int] = []
        self.brokers = self
        self._begins = begins
        stored = {} if offset is None else {TP: offset}
        monkeypatch.setattr(module, "_registered", lambda *_: [TP])
        monkeypatch.setattr(module, "run_blocking", lambda answer: answer)
        monkeypatch.setattr(module, "GroupHold", lambda *_: self)
        self.read_manifest = lambda: None
        self.outdated: Callable[[object], dict[str, str]] = lambda _: {}
        self.offsets_of: Callable[[], dict[TopicPartition, int]] = lambda: dict(stored)

    zookeeper = None

    def offsets(self, wanted: Any) -> Any:
        if isinstance(wanted, list):  # requested as the group's offset
            return self.offsets_of()
        self.asked += wanted.values()
        return {tp: 5 if which == LATEST else self._begins for tp, which in wanted.items()}


@pytest.mark.parametrize(
    ("begins", "offset", "is_idle", "asked"),
    [
        (0, 5, True, [LATEST]),
        (0, 4, False, [LATEST]),
        (0, 6, False, [LATEST]),
        (0, None, False, [LATEST, EARLIEST]),
        (5, None, True, [LATEST, EARLIEST]),
        (5, -1, True, [LATEST, EARLIEST]),
    ],
)
def test_when_there_is_nothing_to_do(
    monkeypatch: pytest.MonkeyPatch, begins: int, offset: int | None, is_idle: bool, asked: list[int]
) -> None:
    """One of the cases is a group without offsets in an empty topic."""
    connections: Any = Asked(monkeypatch, begins, offset)
    extraction = Extraction(zookeeper="z", group="g", topics=("t",), target="/lake")
    assert (module.idle_report(extraction, connections) is not None) == is_idle
    assert connections.asked == asked


def test_prometheus_sees_health_and_lag() -> None:
    metrics = RoundMetrics()
    port = metrics.listen(0)

    def seen() -> dict[str, float]:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name.removeprefix("kafka_zk_extract_"): float(value) for name, _, value in pairs}

    metrics.update(Round(1, BEHIND))
    first = seen()
    assert (first['lag{partition="0",topic="t"}'], first["healthy"], first["records_total"]) == (4, 1, 5)
    assert first["undecodable_total"] == 1 and first["last_success_timestamp_seconds"] > 1e9
    metrics.update(Round(2, None, "no broker answers"))
    second = seen()
    assert (second["healthy"], second['rounds_total{outcome="failed"}']) == (0, 1)
    assert second['lag{partition="0",topic="t"}'] == 4, "the last that is known"
