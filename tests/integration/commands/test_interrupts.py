"""Ctrl-C at every moment of a start: the exit code is 130, no process keeps running, and no file stays behind.

One round interrupts every 400 ms (the demo every 800 ms); further rounds (``make soak``) use the moments in between.
"""

import os
import signal
import subprocess
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka_zk.cli.main import INTERRUPTED
from tests.integration.processes import COMMAND, ENVIRON, TIMEOUT_S, wait_for

pytestmark = pytest.mark.integration

STEP_S = 0.1
LAST_S = 4.0
INTERPRETER_S = 0.3
"""In this time after a start, Python may handle Ctrl-C in its own way, because none of our code has run yet."""


class Ended(NamedTuple):
    after_s: float
    code: int
    output: str
    errors: str
    files: list[str]
    left: list[int]


def moments(seed: int, stride: int) -> list[float]:
    return [number * STEP_S for number in range(seed % stride, round(LAST_S / STEP_S), stride)]


def interrupted(words: tuple[str, ...], after_s: float, folder: Path) -> Ended:
    """Run a command in a process group of its own, and interrupt the group as a terminal does."""
    mark = uuid.uuid4().hex
    folder.mkdir()
    process = subprocess.Popen(
        [*COMMAND, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ENVIRON, "TMPDIR": str(folder), "MARK_OF_THE_TEST": mark},
        start_new_session=True,
    )
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=TIMEOUT_S)
    left = processes_with(mark)
    return Ended(after_s, process.returncode, output, errors, sorted(map(str, folder.iterdir())), left)


def processes_with(mark: str) -> list[int]:
    """The ids of the processes that have the mark in their environment."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in environ.read_bytes():
                found.append(int(environ.parent.name))
        except OSError:
            continue  # the process has ended, or belongs to another user
    return found


def check(ended: Ended) -> None:
    assert (ended.files, ended.left) == ([], []), ended
    if ended.after_s < INTERPRETER_S and "Interrupted" not in ended.errors:
        return
    assert ended.code == (0 if "ready bootstrap=" in ended.output else INTERRUPTED), ended
    notices = ("waiting for ", "port 2181 is in use, ")
    told = [line for line in ended.errors.splitlines() if line and not line.startswith(notices)]
    assert told == ([] if ended.code == 0 else ["Interrupted"]), ended


@pytest.mark.parametrize(
    ("words", "stride", "at_once"),
    [
        pytest.param(("up", "--brokers", "1", "--port", "0"), 4, 2, id="up"),
        pytest.param(("demo", "--json"), 8, 1, id="demo", marks=pytest.mark.long),  # demos need the same ports
    ],
)
def test_an_interrupted_start_leaves_nothing(
    words: tuple[str, ...], stride: int, at_once: int, process_campaign_seed: int, tmp_path: Path
) -> None:
    def one(after_s: float) -> Ended:
        return interrupted(words, after_s, tmp_path / f"{after_s:.1f}")

    with ThreadPoolExecutor(at_once) as pool:
        for ended in pool.map(one, moments(process_campaign_seed, stride)):
            check(ended)


@pytest.mark.soak
def test_a_second_interrupt_is_the_end_of_patience(tmp_path: Path) -> None:
    """ZooKeeper is paused, so the broker cannot end; the first Ctrl-C waits for it."""
    process = subprocess.Popen(
        [*COMMAND, "up", "--brokers", "1", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ENVIRON, "TMPDIR": str(tmp_path)},
    )
    assert process.stdout
    zookeeper, broker, _ = (process.stdout.readline() for _ in range(3))
    pids = [int(line.split(" pid ")[1].split()[0]) for line in (zookeeper, broker)]
    os.kill(pids[0], signal.SIGSTOP)  # the broker cannot leave ZooKeeper in order
    process.send_signal(signal.SIGINT)
    try:
        wait_for(lambda: _again(process), "the end")
    finally:
        process.kill()
    assert "stopped by force" in process.communicate()[1]
    assert process.returncode == 1


def _again(process: "subprocess.Popen[str]") -> bool:
    """Interrupt the process, and return whether it has ended. Interrupts within two seconds count as one."""
    process.send_signal(signal.SIGINT)
    return process.poll() is not None
