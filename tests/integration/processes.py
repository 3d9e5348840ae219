"""Run ``kafka-zk`` as a process, as a person would."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from tests.terminal import Terminal

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "kafka_zk"]
ENVIRON = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
for _size in ("COLUMNS", "LINES"):  # a pipe does not have the width of the terminal that runs the tests
    ENVIRON.pop(_size, None)
TIMEOUT_S = 60


def kafka_zk(
    *arguments: str | Path, stdin: str = "", cwd: Path | None = None, timeout_s: float = TIMEOUT_S
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, env=ENVIRON, cwd=cwd, timeout=timeout_s, check=False
    )


def kafka_zk_json(*arguments: str | Path) -> Any:
    """Run a command that must succeed, and read what it prints with ``--json``."""
    done = kafka_zk(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def start(*arguments: str | Path, stdout: int | IO[str] = subprocess.PIPE) -> "subprocess.Popen[str]":
    """Start a command that keeps running."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=ENVIRON)


def on_terminal(*arguments: str | Path, lines: int = 40) -> Terminal:
    """Start a command on a terminal of 80 columns, which ends with its ``with`` block."""
    return Terminal([*COMMAND, *arguments], ENVIRON, lines=lines)


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = TIMEOUT_S) -> Any:
    """Poll until ``condition()`` is true, and return it."""
    deadline_s = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline_s, f"{what}: not within {timeout_s} s"
        time.sleep(0.02)
    return value


def running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def wait_for_end(*pids: int) -> None:
    """Wait until none of the processes is left."""
    wait_for(lambda: not any(running(pid) for pid in pids), f"the end of {pids}")
