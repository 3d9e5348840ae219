"""Opening logs in slices: other work runs in between, and the broker's log reports progress and findings."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig
from kafka_zk.broker.process.opening_logs import (
    DELETES_NOTHING,
    PROGRESS_INTERVAL_S,
    SLICE_S,
    StartAbandoned,
    open_logs,
    tell_finding,
    usable_configs,
)
from kafka_zk.storage.files.findings import Finding
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.manager.log_loader import Dropped
from kafka_zk.storage.manager.log_start import StartProgress, StartReport
from tests.kafka_zk.broker.conftest import FakeConfigs

REPORT = StartReport(
    3, 3, (Dropped(TopicPartition("t", 1), "/f.log", 70, 9, 30, ("/g.log",), "torn", "/aside"),), {"/d": "no disk"}, 900
)


class Logs:
    """A log manager whose steps take time on the clock."""

    def __init__(self, clock: Clock, durations_s: list[float], is_waiting: bool) -> None:
        self._clock = clock
        self._durations_s = durations_s
        self._is_waiting = is_waiting
        self.done_count = 0

    def start_steps(self, topic_configs: Any) -> Iterator[StartProgress]:
        for duration_s in self._durations_s:
            self._clock.rightNow += duration_s
            self.done_count += 1
            yield StartProgress(self.done_count, 3, 300, 900, self._is_waiting)
        return REPORT  # type: ignore[return-value]


def opening(clock: Clock, logs: Logs, is_stopping: Callable[[], bool] = lambda: False) -> "Deferred[StartReport]":
    return ensureDeferred(open_logs(clock, logs, {}, is_stopping))  # type: ignore[arg-type]


def test_quick_steps_share_a_slice_and_the_reactor_has_a_turn_after_it() -> None:
    clock = Clock()
    logs = Logs(clock, [SLICE_S / 2] * 4, is_waiting=False)
    opened = opening(clock, logs)
    assert logs.done_count == 2 and not opened.called
    clock.advance(0)
    assert logs.done_count == 4
    clock.advance(0)
    assert opened.called


def test_helpers_at_work_are_left_alone_for_a_while() -> None:
    clock = Clock()
    logs = Logs(clock, [0.0] * 2, is_waiting=True)
    opening(clock, logs)
    assert logs.done_count == 1
    clock.advance(0)
    assert logs.done_count == 1
    clock.advance(1)
    assert logs.done_count == 2


def test_a_stopped_broker_opens_no_more_logs() -> None:
    clock = Clock()
    logs = Logs(clock, [SLICE_S] * 2, is_waiting=False)
    stopping: list[bool] = []
    failed: list[Failure] = []
    opening(clock, logs, lambda: bool(stopping)).addErrback(failed.append)
    stopping.append(True)
    clock.advance(0)
    assert logs.done_count == 1 and failed[0].check(StartAbandoned)


def test_progress_and_findings_are_told_with_their_figures(caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    opening(clock, Logs(clock, [PROGRESS_INTERVAL_S], is_waiting=False))
    clock.advance(0)
    progress, dropped, segment, offline, done = caplog.records
    assert segment.levelname == "WARNING" and "new end of the log; moved to /aside" in segment.getMessage()
    assert progress.fields == {"opened": 1, "count": 3, "scanned_bytes": 300, "bytes_to_scan": 900}
    assert "torn" in dropped.getMessage()
    assert {"topic": "t", "partition": 1, "position": 70, "bytes_dropped": 30}.items() <= dropped.fields.items()
    assert "log_end_offset" in dropped.fields
    assert offline.getMessage() == "log directory /d cannot be used: no disk"
    assert {"count": 3, "recovered": 3, "scanned_bytes": 900}.items() <= done.fields.items()


def test_what_storage_could_not_take_is_one_warning_each(caplog: Any) -> None:
    tell_finding(Finding("/d/x", "is damaged (torn)", "it is recreated", "/d/x.damaged"))
    tell_finding(Finding("/d/y", "is missing", "nothing is known"))
    first, second = caplog.records
    assert (first.levelname, first.fields["kept_as"]) == ("WARNING", "/d/x.damaged")
    assert first.getMessage() == "/d/x is damaged (torn): it is recreated"
    assert second.getMessage() == "/d/y is missing: nothing is known" and "kept_as" not in second.fields


def opened_with(topics: dict[str, dict[str, str]], defaults: LogConfig) -> "Deferred[dict[str, dict[str, str]]]":
    configs = FakeConfigs()
    configs.topics |= topics
    return ensureDeferred(usable_configs(configs, defaults))  # type: ignore[arg-type]


def test_a_broker_without_remote_storage_does_not_start_with_tiered_topics() -> None:
    """Apache Kafka refuses, too. The topics of brokers are never tiered, whatever their configuration says."""
    tiered = {"remote.storage.enable": "true"}
    topics = {name: tiered for name in ("e", "d", "c", "b", "__consumer_offsets")} | {"a": {}}
    problem = failure_of(opened_with(topics, LogConfig())).value
    assert isinstance(problem, InvalidBrokerConfig)
    assert str(problem) == (
        "remote.log.storage.system.enable=false: must be true, or all topics with remote.storage.enable=true must be "
        "deleted first: b, c, d and 1 more"
    )
    found: list[Any] = []
    opened_with(topics, LogConfig(remote_log_storage_system_enable=True)).addCallback(found.append)
    opened_with({"__consumer_offsets": tiered}, LogConfig()).addCallback(found.append)
    assert [len(each) for each in found] == [6, 1]


def test_an_invalid_configuration_deletes_nothing() -> None:
    """The topic may keep its records forever, so the broker's own retention is no substitute."""
    found: list[Any] = []
    opened_with({"a": {"retention.ms": "-1", "segment.bytes": "x"}}, LogConfig()).addCallback(found.append)
    assert found == [{"a": DELETES_NOTHING}]


def failure_of(result: "Deferred[Any]") -> Failure:
    failures: list[Failure] = []
    result.addErrback(failures.append)
    return failures[0]
