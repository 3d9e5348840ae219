"""A supervised child is ended if the thread that would wait for it cannot start."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.embedded import starter
from kafka_zk.embedded.process import ChildProcess
from kafka_zk.embedded.supervisor import Supervisor


def test_a_child_that_nobody_can_wait_for_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    def popen(*args: Any, **options: Any) -> Any:
        started.append(real_popen(*args, **options))
        return started[0]

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    real_popen = subprocess.Popen
    starter.start(lambda: real_popen(["true"])).wait()  # the starter's own thread exists now
    monkeypatch.setattr(subprocess, "Popen", popen)
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    child = ChildProcess("c", command, tmp_path / "log", supervisor=Supervisor(print))
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            child.start()
    child.kill()
    alive = started[0].poll() is None
    started[0].kill()
    assert not alive
