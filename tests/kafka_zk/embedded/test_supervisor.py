"""Which session is closed, and when: only that of the reaped child, and only once no process holds its pipe."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.embedded.process import ChildProcess
from kafka_zk.embedded.supervisor import Supervisor, session_to_close
from kafka_zk.registry.client.session_pipe import ReportedSession

ROOT = Path(__file__).parents[3]
PASSWORD = b"p" * 16
PRELUDE = (
    "import os, subprocess, sys, time\n"
    "from kafka_zk.registry.client.session_pipe import SessionPipe, ReportedSession\n"
    "pipe = SessionPipe.inherited()\n"
    "def tell(session_id):\n"
    "    os.write(pipe.descriptor, ReportedSession(os.getpid(), session_id, b'p' * 16).line())\n"
    "def up(*more):\n"
    "    print('up', *more, flush=True); time.sleep(60)\n"
)
SLEEP = "[sys.executable, '-c', 'import time; time.sleep(60)']"


def wait_for(condition: Callable[[], object], timeout_s: float = 10) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition never became true"
        time.sleep(0.01)


class Lab:
    """Children under a supervisor that records the sessions it would close."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.closed: list[int] = []
        self._supervisor = Supervisor(self._close)
        self.children: list[ChildProcess] = []
        self.others: list[int] = []

    def _close(self, session_id: int, password: bytes) -> None:
        assert password == PASSWORD
        self.closed.append(session_id)

    def child(self, code: str, *wrapper: str) -> ChildProcess:
        command = [*wrapper, sys.executable, "-c", PRELUDE + code]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        child = ChildProcess("child", command, self._folder / "log", environ, supervisor=self._supervisor)
        self.children.append(child)
        return self.up(child)

    @staticmethod
    def up(child: ChildProcess) -> ChildProcess:
        child.start()
        child.wait_until(lambda: "up" in child.output() and child.output().endswith("\n"), 10, "tell")
        return child

    def other(self, child: ChildProcess) -> int:
        """The id of a process that the child has started and printed."""
        self.others.append(int(child.output().split()[1]))
        return self.others[-1]

    @staticmethod
    def waits(child: ChildProcess) -> bool:
        """Whether the supervisor still waits for the child's end."""
        return any(thread.name == f"session of {child.pid}" for thread in threading.enumerate())

    def settled(self, child: ChildProcess) -> list[int]:
        wait_for(lambda: not self.waits(child))
        return self.closed


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    yield made
    for child in made.children:
        child.kill()
    for pid in made.others:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def test_only_the_child_that_was_reaped_counts() -> None:
    told = ReportedSession(41, 7, PASSWORD)
    assert session_to_close(told.line(), 41) == told
    assert session_to_close(told.line(), 42) is None
    assert session_to_close(told.line() + ReportedSession(42, 8, PASSWORD).line(), 41) is None, "not the last report"
    assert session_to_close(b"", 41) is None


@pytest.mark.integration
def test_the_last_session_of_a_killed_child_is_closed(lab: Lab) -> None:
    child = lab.child("tell(7); tell(8); up()")
    os.kill(child.pid, signal.SIGKILL)  # not by the supervisor
    assert lab.settled(child) == [8]
    assert child.exit_code == -signal.SIGKILL


@pytest.mark.integration
def test_a_child_that_ends_by_itself_is_dead_as_well(lab: Lab) -> None:
    """A session that the child has closed itself has an invalid id by then."""
    child = lab.child("tell(7); print('up', flush=True)")
    assert lab.settled(child) == [7]


@pytest.mark.integration
def test_nothing_is_closed_of_a_child_that_is_paused(lab: Lab) -> None:
    child = lab.child("tell(7); up()")
    child.pause()
    wait_for(lambda: ") T " in Path(f"/proc/{child.pid}/stat").read_text())
    assert lab.waits(child) and not lab.closed
    child.resume()
    child.kill()
    assert lab.settled(child) == [7]


@pytest.mark.integration
def test_the_death_of_a_wrapper_proves_nothing(lab: Lab) -> None:
    """This holds while the real process lives and afterwards, because the supervisor has not reaped it."""
    wrapper = lab.child("tell(7); up(os.getpid())", "sh", "-c", '"$@"; true', "sh")
    real = lab.other(wrapper)
    assert real != wrapper.pid
    wrapper.kill()
    assert not wrapper.alive and lab.waits(wrapper) and not lab.closed
    os.kill(real, signal.SIGKILL)
    assert lab.settled(wrapper) == []


@pytest.mark.integration
def test_a_helper_that_writes_for_it_must_be_dead_too(lab: Lab) -> None:
    child = lab.child(f"tell(7); up(subprocess.Popen({SLEEP}, pass_fds=[pipe.descriptor]).pid)")
    helper = lab.other(child)
    child.kill()
    assert not child.alive and lab.waits(child) and not lab.closed
    os.kill(helper, signal.SIGKILL)
    assert lab.settled(child) == [7]


@pytest.mark.integration
def test_a_program_that_it_has_started_otherwise_does_not_count(lab: Lab) -> None:
    """The pipe is closed on exec."""
    child = lab.child(f"tell(7); up(subprocess.Popen({SLEEP}, close_fds=False).pid)")
    lab.other(child)
    child.kill()
    assert lab.settled(child) == [7]


@pytest.mark.integration
def test_each_start_has_a_pipe_of_its_own(lab: Lab) -> None:
    """A slow end of the first process cannot close the session of the second."""
    child = lab.child(f"tell(os.getppid() and 7); up(subprocess.Popen({SLEEP}, pass_fds=[pipe.descriptor]).pid)")
    helper, first_pid = lab.other(child), child.pid
    child.kill()
    second = lab.up(child)
    lab.other(second)
    os.kill(helper, signal.SIGKILL)
    wait_for(lambda: lab.closed == [7])
    assert second.pid != first_pid and second.alive and lab.waits(second)


@pytest.mark.integration
def test_a_child_that_told_of_no_session_has_none_to_close(lab: Lab) -> None:
    child = lab.child("up()")
    child.kill()
    assert lab.settled(child) == []


@pytest.mark.integration
def test_a_child_that_cannot_be_started_leaves_no_descriptor(lab: Lab, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    child = ChildProcess("c", ["x\0"], tmp_path / "log", supervisor=Supervisor(print))
    with pytest.raises((ValueError, ProcessFailed)):
        child.start()
    assert len(os.listdir("/proc/self/fd")) == before
