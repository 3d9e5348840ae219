"""The judges of the attacks: bounds, table and honest client."""

import time
from pathlib import Path

import pytest

from tests.attack.bounds import Outcome, Quiet, broken_bounds
from tests.attack.cluster import complaints
from tests.attack.report import Row, summarize, table
from tests.attack.siege import Probe, Siege

QUIET = Quiet(10.0)
GOOD = Outcome(longest_wait_ms=259.0, peak_mb=299.0, log="")
REFUSAL = (
    "2026-11-22T09:40:06.993Z WARNING kafka_zk.network.connection: "
    "127.0.0.1:9092-127.0.0.1:45396-7 closed: a frame of 99 bytes"
)


def test_what_holds_is_not_told() -> None:
    assert broken_bounds(QUIET, GOOD) == []
    assert broken_bounds(QUIET, Outcome(None, 50.0, REFUSAL, refused=["127.0.0.1:45396"])) == []


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        (
            Outcome(261.0, 50.0, ""),
            "another client waited 261 ms, at most 260 ms are allowed (10 ms when it is quiet + 250)",
        ),
        (Outcome(20.0, 4040.0, ""), "the broker took 4,040 MB, at most 300 MB are allowed"),
        (Outcome(20.0, 50.0, "", {"Produce: error 6": 3}), "another client met errors: {'Produce: error 6': 3}"),
        (
            Outcome(20.0, 50.0, "", waiting=["127.0.0.1:1", "127.0.0.1:2"]),
            "2 connections neither answered nor closed, such as 127.0.0.1:1",
        ),
        (
            Outcome(20.0, 50.0, REFUSAL, refused=["127.0.0.1:4539"]),  # its number is a prefix of another one's
            "1 connections closed without a line in the log, such as 127.0.0.1:4539",
        ),
        (Outcome(20.0, 50.0, "Traceback (most recent call last):\n"), "1 tracebacks in the log"),
    ],
)
def test_a_broken_bound_is_told(outcome: Outcome, sentence: str) -> None:
    assert broken_bounds(QUIET, outcome) == [sentence]


def test_a_log_is_told_by_its_kinds() -> None:
    log = f"{REFUSAL}\n{REFUSAL.replace('45396-7', '45397-8')}\n2026-11-22T09:40:06.993Z INFO a: b\n{REFUSAL}!\n"
    assert summarize(complaints(log)) == [
        "2 × WARNING a connection closed: a frame of 99 bytes",
        "1 × WARNING a connection closed: a frame of 99 bytes!",
    ]


def test_the_table_says_what_was_measured_and_what_was_not() -> None:
    lines = table([Row("one", 1234.5, 50.0, 2.0), Row("two", None, 4040.0, 2.0, ["3 × a", "1 × b"], ["bad"])], "bounds")
    assert lines[2].split() == ["one", "1,234", "ms", "50", "MB", "2", "s", "ok", "nothing"]
    assert lines[3].split()[:6] == ["two", "–", "4,040", "MB", "2", "s"]
    assert lines[3].endswith("FAIL  3 × a (and 1 more kinds)")
    assert lines[-1] == "bounds"


@pytest.mark.attack
@pytest.mark.embedded
def test_the_honest_client_feels_a_broker_that_stands_still(siege: Siege) -> None:
    probe = Probe(siege.victim.port)
    with siege.victim.broker.paused():
        time.sleep(0.5)
    assert probe.stop()["longest_wait_ms"] >= 450


def test_every_attack_has_the_marker() -> None:
    for path in Path(__file__).parent.glob("test_*.py"):
        assert path == Path(__file__) or "pytestmark = [pytest.mark.attack" in path.read_text(), path.name
