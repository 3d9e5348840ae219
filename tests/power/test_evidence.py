"""The evidence about a broker that does not respond shows what the broker is doing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.embedded.process import ChildProcess
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from tests.power import evidence, servers

PROGRAM = """
import threading
def sleeps_on_a_lock():
    print("holding", flush=True)
    threading.Lock().acquire() and threading.Event().wait()
sleeps_on_a_lock()
"""


@pytest.fixture
def broker(tmp_path: Path) -> BrokerProcess:
    """A program instead of a broker."""
    made = servers.broker(servers.OURS, tmp_path, 7, 0, [tmp_path], "", {})
    python, *options = made.process.command
    made.process.command = [python, *options[: options.index("-m")], "-c", PROGRAM]
    return made


@pytest.fixture
def zookeeper(tmp_path: Path) -> EmbeddedZooKeeper:
    """A program instead of a ZooKeeper."""
    made: Any = SimpleNamespace(process=ChildProcess("ZooKeeper", [], tmp_path / "zookeeper.log"))
    (tmp_path / "zookeeper.log").write_text("fsync-ing the write ahead log took 30000ms\n")
    return cast(EmbeddedZooKeeper, made)


def test_a_broker_that_hangs_shows_its_log_and_its_stacks(broker: BrokerProcess, zookeeper: EmbeddedZooKeeper) -> None:
    broker.start()
    try:
        broker.process.wait_until(lambda: "holding" in broker.process.output(), 30, "hold")
        shown = evidence.of([broker], zookeeper)
    finally:
        broker.kill()
    assert "the log of broker 7:\nholding" in shown
    assert "in sleeps_on_a_lock" in shown, "the stack is missing"
    assert "the log of ZooKeeper:\nfsync-ing" in shown
    assert f"{broker.pid} python" in shown, "the thread's place in the kernel is missing"


def test_a_broker_that_has_ended_shows_its_end(broker: BrokerProcess, zookeeper: EmbeddedZooKeeper) -> None:
    broker.process.command[-1] = "raise SystemExit('no disk')"
    broker.start()
    with pytest.raises(ProcessFailed):
        broker.process.wait_until(lambda: False, 30, "end")
    assert "ended with exit code 1, saying: no disk" in evidence.of([broker], zookeeper)


def test_an_exception_is_shown_with_its_notes() -> None:
    error = ValueError("no answer")
    error.add_note("the log")
    assert evidence.text_of(error) == "no answer\nthe log"
