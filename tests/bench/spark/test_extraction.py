"""A measured extraction that fails leaves no process behind."""

import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench.spark import extraction

DRIVER = ["sh", "-c", "sleep 60 > /dev/null & echo $!"]
"""The command leaves a worker behind, and ends."""


@pytest.fixture
def target() -> Any:
    return SimpleNamespace(zookeeper="127.0.0.1:1")


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_failure_kills_the_workers_of_a_driver_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Any, cleanup: ExitStack
) -> None:
    monkeypatch.setattr(extraction, "tied", lambda command: DRIVER)
    folder = tmp_path / "t"
    with (
        pytest.raises(KeyboardInterrupt),
        extraction._extracting(target, "t", folder, "local", subprocess.PIPE) as process,
    ):
        assert process.stdout is not None
        with process.stdout as said:
            worker = os.pidfd_open(int(said.read()))
        cleanup.callback(os.close, worker)
        process.wait()
        raise KeyboardInterrupt
    ending = select.poll()
    ending.register(worker, select.POLLIN)
    ended = ending.poll(5_000)
    if not ended:
        signal.pidfd_send_signal(worker, signal.SIGKILL)
    assert ended


def test_a_failure_is_told_when_there_is_nothing_to_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Any
) -> None:
    monkeypatch.setattr(extraction, "tied", lambda command: ["true"])
    with (
        pytest.raises(KeyboardInterrupt),
        extraction._extracting(target, "t", tmp_path / "t", "local", subprocess.DEVNULL) as process,
    ):
        process.wait()
        raise KeyboardInterrupt
