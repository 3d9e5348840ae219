"""Server warnings since the start of a test are found in the logs, and attached to a test that fails."""

import time
from pathlib import Path
from typing import cast

import pytest

from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.testing.server_logs import ENTRIES_SHOWN, LINES_SHOWN, LogFile, ServerLogs, warnings
from tests.kafka_zk.testing.runs import run_pytest

BROKER = """\
2026-11-21T06:18:29.123Z INFO kafka_zk.broker.process.broker: registered broker_id=0
2026-11-21T06:18:30.000Z WARNING kafka_zk.broker.replica: the disk is slow seconds=3
2026-11-21T06:18:31.000Z INFO kafka_zk.broker.process.broker: a WARNING in the text is none
2026-11-21T06:18:32.000Z ERROR twisted: Unhandled Error
Traceback (most recent call last):
  ValueError: no
2026-11-21T06:18:33.000Z DEBUG x: nothing
Error: port 9092 is in use
"""


def test_warnings_and_errors_of_a_broker() -> None:
    assert warnings(BROKER) == [
        "2026-11-21T06:18:30.000Z WARNING kafka_zk.broker.replica: the disk is slow seconds=3",
        "2026-11-21T06:18:32.000Z ERROR twisted: Unhandled Error\nTraceback (most recent call last):\n  ValueError: no",
        "Error: port 9092 is in use",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-21 06:18:29,123 WARN NIOServerCnxn: Unable to read additional data",
        "2026-11-21 06:18:29,123 [myid:] - WARN  [main:QuorumPeerConfig@318] - No server failure will be tolerated",
        "2026-11-21 06:18:29,123 [myid:1] - ERROR [main:ZooKeeperServerMain@79] - Unexpected exception",
    ],
)
def test_warnings_of_every_zookeeper(line: str) -> None:
    """The embedded one, 3.8 with logback, 3.4 with log4j."""
    assert warnings(line.replace("WARN", "INFO").replace("ERROR", "INFO")) == []
    assert warnings(line) == [line]


def test_a_stack_trace_is_cut() -> None:
    trace = "\n".join(["2026-11-21 06:18:29,123 WARN NIOServerCnxn: no", *(f"\tat line {n}" for n in range(40))])
    [entry] = warnings(trace)
    assert entry.splitlines()[-1].strip() == "…" and len(entry.splitlines()) == LINES_SHOWN + 1


def test_a_log_is_read_from_its_mark(tmp_path: Path) -> None:
    log = LogFile("broker 0", tmp_path / "broker.log")
    assert log.since(log.mark()) == "", "the log does not exist yet"
    log.path.write_text("before\n")
    mark = log.mark()
    with log.path.open("a") as file:
        file.write("after\n")
    assert (log.since(mark), log.since(None)) == ("after\n", "before\nafter\n")
    log.path.rename(tmp_path / "broker.log.1")
    log.path.write_text("the next file\n")
    assert log.since(mark) == "the next file\n"


class InContainer:
    """A ZooKeeper in a container: the lines that it printed, and when."""

    def __init__(self) -> None:
        self.printed: list[tuple[float, str]] = []

    def warn(self, text: str) -> None:
        self.printed.append((time.time(), f"2026-11-21 06:18:29,123 [myid:] - WARN  [main:X@1] - {text}\n"))

    def output(self, since_s: float | None = None) -> str:
        return "".join(text for at_s, text in self.printed if at_s >= (since_s or 0))

    def __enter__(self) -> "InContainer":
        self.warn("it starts")
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_a_shared_server_shows_what_it_said_since_the_test_began_and_an_own_one_goes_with_its_test() -> None:
    logs, shared, own = ServerLogs(), InContainer(), InContainer()
    with logs.watched(cast(EmbeddedZooKeeper, shared), shared=True), logs.watched(cast(EmbeddedZooKeeper, own)):
        assert logs.report() == "", "nothing of how they start"
        shared.warn("shared")
        own.warn("own")
        assert [line[-6:].strip() for line in logs.report().splitlines() if "WARN" in line] == ["shared", "- own"]
        logs.begin_test()
        assert logs.report() == ""
        own.warn("of the test before")
        shared.warn("again")
        assert logs.report().startswith("ZooKeeper (in a container):\n") and logs.report().endswith("again")


def test_the_newest_entries_are_shown_and_the_rest_counted() -> None:
    logs, server = ServerLogs(), InContainer()
    with logs.watched(cast(EmbeddedZooKeeper, server)):
        for number in range(ENTRIES_SHOWN + 5):
            server.warn(f"number {number}")
        report = logs.report().splitlines()
    assert report[0] == f"ZooKeeper (in a container, the last {ENTRIES_SHOWN} of {ENTRIES_SHOWN + 5}):"
    assert report[1].endswith("number 5") and len(report) == 1 + ENTRIES_SHOWN


TESTS = """
import contextlib, socket

def send_nonsense(port):
    with socket.create_connection(("127.0.0.1", port)) as connection, contextlib.suppress(OSError):
        connection.sendall(b"\\xff" * 64)
        while connection.recv(100):
            pass

def test_1_fails(kafka_zk_cluster, zookeeper_server):
    send_nonsense(zookeeper_server.port)
    send_nonsense(kafka_zk_cluster.brokers[0].port)
    assert False

def test_2_fails_without_a_warning(kafka_zk_cluster):
    assert False

def test_3_passes(kafka_zk_cluster):
    send_nonsense(kafka_zk_cluster.brokers[0].port)

def test_4_has_nothing_to_do_with_servers():
    assert False

def test_5_cannot_start(make_cluster):
    make_cluster(properties={"log.retention.hours": "many"})
"""
TITLE = "WARN and worse in the logs of kafka-zk and ZooKeeper"


@pytest.mark.integration
def test_a_failed_test_shows_what_its_servers_warned_of_and_no_other_does(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    shown = run_pytest(tmp_path, "-o", "kafka_zk_brokers=1")
    assert "4 failed, 1 passed" in shown, shown
    reports = dict(zip("1245", shown.split("___ test_")[1:], strict=True))
    assert {number for number, text in reports.items() if TITLE in text} == {"1", "5"}, shown
    said = {number: text.partition(TITLE)[2] for number, text in reports.items()}
    assert "ZooKeeper (/" in said["1"] and " WARN NIOServerCnxn: Close of session" in said["1"]
    assert "broker 0 (/" in said["1"] and "a frame of -1 bytes" in said["1"]
    assert "Error: log.retention.hours=many: must be a number" in said["5"]
