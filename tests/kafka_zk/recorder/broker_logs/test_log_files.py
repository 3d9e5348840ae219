"""Folders of logs: real ones, and ones with renamed, compressed, torn and endless files."""

import gzip
from datetime import UTC
from pathlib import Path

from kafka_zk.recorder.broker_logs.log_files import MOST_LINE_BYTES, BrokerLogs
from tests.kafka_zk.recorder.outages import DATA


def _line(second: int, message: str, name: str = "kafka.server.KafkaServer") -> str:
    return f"[2026-11-30 00:00:{second:02},000] INFO {message} ({name})\n"


def _said(folder: Path) -> list[tuple[str, str]]:
    return [(event.actor, event.said) for event in BrokerLogs(folder, UTC).events()]


def test_logs_of_a_real_cluster_tell_who_left_a_group_and_why() -> None:
    logs = BrokerLogs(DATA / "broker-killed", UTC)
    events = list(logs.events())
    assert [each.time_ms for each in events] == sorted(each.time_ms for each in events)
    of_group = [(each.kind, each.actor) for each in events if each.subject == "readers"]
    assert of_group == [
        (kind, "broker-2") for kind in ("rebalance begins", "rebalance done", "member failed", "rebalance begins",
        "rebalance done", "rebalance begins", "member left", "rebalance done")
    ]  # fmt: skip
    starts = [each for each in events if each.actor == "broker-1" and each.kind in ("broker started", "unclean start")]
    assert [each.kind for each in starts] == ["broker started", "unclean start", "broker started"]
    assert starts[1].file == "broker-1/server.log.1.gz" and starts[1].line_number == 133
    assert logs.problems == []


def test_parts_of_a_log_are_read_in_the_order_of_their_times(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(_line(30, "[KafkaServer id=7] started"))
    (tmp_path / "server.log.1").write_text(_line(20, "[KafkaServer id=7] starting"))
    (tmp_path / "server.log.2.gz").write_bytes(gzip.compress(_line(10, "[KafkaServer id=7] shutting down").encode()))
    (tmp_path / "controller.log").write_text(_line(25, "[Controller id=7] Resigned"))
    (tmp_path / "kafkaServer-gc.log").write_text(_line(1, "[KafkaServer id=7] started"))
    assert [said for _, said in _said(tmp_path)] == [
        "shuts down", "starts", "is not the controller any more", "has started"
    ]  # fmt: skip


def test_the_broker_of_a_line_is_that_of_its_file_or_folder(tmp_path: Path) -> None:
    cut = _line(1, "[UnifiedLog partition=t-0, dir=/data] Truncating to offset 4", "kafka.log.UnifiedLog")
    for name, more in (("a", _line(2, "[GroupCoordinator 5]: Startup complete.")), ("b", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "server.log").write_text(cut + more)
    assert [actor for actor, _ in _said(tmp_path)] == ["broker-5", "b"]


def test_trouble_that_lasts_is_told_once_a_minute_with_its_cause(tmp_path: Path) -> None:
    message = "Error processing append operation on partition"
    cause = "a.NotEnoughReplicasException: too few\n\tat a.B\n"
    lines = [
        f"[2026-11-30 00:{minute}:00,000] ERROR [ReplicaManager broker=1] {message} {name}\n{cause}"
        for minute, name in (("01", "t-0"), ("01", "t-0"), ("01", "t-1"), ("02", "t-0"))
    ]
    (tmp_path / "server.log").write_text("".join(lines))
    assert [said for _, said in _said(tmp_path)] == [
        f"refuses records for {name}: too few" for name in ("t-0", "t-1", "t-0")
    ]  # fmt: skip


def test_endless_lines_and_bytes_that_are_not_text_are_passed_over(tmp_path: Path) -> None:
    endless = b"x" * (3 * MOST_LINE_BYTES) + b"[2026-11-30 00:00:01,000] INFO [KafkaServer id=1] started\n"
    content = endless + b"\xff\xfe\n" + _line(9, "[KafkaServer id=1] started").encode()
    (tmp_path / "server.log").write_bytes(content)
    [event] = BrokerLogs(tmp_path, UTC).events()
    assert event.line_number == 3


def test_a_torn_file_is_read_as_far_as_it_goes_and_named(tmp_path: Path) -> None:
    whole = gzip.compress((_line(1, "[KafkaServer id=1] starting") * 2_000).encode())
    (tmp_path / "server.log.1.gz").write_bytes(whole[:-9])
    logs = BrokerLogs(tmp_path, UTC)
    assert len(list(logs.events())) > 0
    [problem] = logs.problems
    assert "server.log.1.gz cannot be read to its end" in problem
