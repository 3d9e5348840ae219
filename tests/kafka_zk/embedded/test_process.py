"""Child processes: they report how they ended, and never outlive their parent."""

import os
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import pytest

from kafka_zk.embedded import starter
from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.embedded.process import ChildProcess, lines_since

pytestmark = pytest.mark.integration
SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]


def wait_for(condition: Callable[[], bool], timeout_s: float = 10) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition never became true"
        time.sleep(0.01)


def exists(pid: int) -> bool:
    """Whether the process runs; a zombie does not count."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_a_process_that_ends_by_itself_is_named_with_its_last_line_and_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('port 1 is taken'); raise SystemExit(3)"]
    child = ChildProcess("broker 7", command, tmp_path / "broker.log")
    child.start()
    with pytest.raises(
        ProcessFailed, match=r"broker 7 ended with exit code 3, saying: port 1 is taken \(log: .*broker"
    ):
        child.wait_until(lambda: False, 10, "serve")


def test_a_logged_error_is_quoted_rather_than_the_farewell_after_it(tmp_path: Path) -> None:
    child = ChildProcess("broker 7", [sys.executable, "-c", "print('t ERROR k: id 7 is taken\\nt INFO k: stopped')"],
                         tmp_path / "log")  # fmt: skip
    child.start()
    wait_for(lambda: not child.alive)
    assert ", saying: t ERROR k: id 7 is taken (log: " in child.describe_end()


def test_only_what_it_logged_in_its_last_seconds_is_quoted_of_a_process_that_was_killed(tmp_path: Path) -> None:
    """Lines without a time are as old as the line before them."""
    old = "2026-11-22T13:00:00.000Z ERROR k: the disk is slow\\nTraceback …"
    code = f"import time; print('{old}', flush=True); print('2026-11-22T13:00:01.000Z INFO k: fine', flush=True)"
    child = ChildProcess("broker 7", [sys.executable, "-c", f"{code}; time.sleep(60)"], tmp_path / "log")
    child.start()
    wait_for(lambda: "fine" in child.output())
    child.kill()
    assert child.describe_end() == f"broker 7 ended with signal SIGKILL (log: {tmp_path / 'log'})"
    assert "the disk is slow" in child.recent_output()


def test_lines_without_a_time_are_as_old_as_those_around_them() -> None:
    log = "early\n2026-11-22T13:00:00.000Z INFO a\nof a\n2026-11-22T13:00:10,000Z INFO b\nof b\n"
    first_s = datetime(2026, 11, 22, 13, tzinfo=UTC).timestamp()
    assert lines_since(log, first_s - 1, first_s + 20)[0] == "2026-11-22T13:00:00.000Z INFO a"
    assert lines_since(log, first_s + 5, first_s + 20) == ["2026-11-22T13:00:10,000Z INFO b", "of b"]
    assert lines_since(log, first_s + 15, first_s + 20) == ["of b"]
    assert lines_since("no\ntimes", first_s, first_s - 1) == []
    assert lines_since("no\ntimes", first_s, first_s) == ["no", "times"]


def test_a_process_that_is_not_ready_in_time_is_named(tmp_path: Path) -> None:
    child = ChildProcess("ZooKeeper", SLEEPER, tmp_path / "log")
    child.start()
    with pytest.raises(ProcessFailed, match="ZooKeeper did not answer within 0 s"):
        child.wait_until(lambda: False, 0, "answer")
    child.kill()


def test_a_paused_process_can_be_stopped(tmp_path: Path) -> None:
    child = ChildProcess("sleeper", SLEEPER, tmp_path / "log")
    child.start()
    wait_for(lambda: "up" in child.output())
    child.pause()
    assert child.is_paused
    assert child.stop(timeout_s=10) == -15
    assert not child.alive


def test_a_process_is_asked_to_end_once(tmp_path: Path) -> None:
    """A second SIGTERM may arrive after Python has removed its handlers, and turn a clean end into a kill."""
    code = (
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True))\n"
        "print('up', flush=True)\n"
        "signal.pause(); time.sleep(0.2)"
    )
    child = ChildProcess("sleeper", [sys.executable, "-c", code], tmp_path / "log")
    child.start()
    wait_for(lambda: "up" in child.output())
    child.terminate()
    assert child.stop(timeout_s=10) == 0
    assert child.output() == "up\nasked\n"


def test_output_is_that_of_the_last_start_and_the_log_keeps_all(tmp_path: Path) -> None:
    child = ChildProcess("echo", [sys.executable, "-c", "print('once')"], tmp_path / "log")
    for _ in range(2):
        child.start()
        wait_for(lambda: not child.alive)
    assert child.exit_code == 0
    assert child.output() == "once\n"
    assert child.log_file.read_text() == "once\nonce\n"


def test_a_command_that_cannot_be_run_is_told(tmp_path: Path) -> None:
    child = ChildProcess("java", [tmp_path / "java"], tmp_path / "log")
    child.start()
    with pytest.raises(ProcessFailed, match=r"cannot run .*java: No such file"):
        child.wait_until(lambda: False, 10, "answer")


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_a_process_starts_although_the_current_folder_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java needs a current folder, so the process gets that of its log."""
    removed = tmp_path / "removed"
    removed.mkdir()
    monkeypatch.chdir(removed)
    removed.rmdir()
    process = ChildProcess("one", [sys.executable, "-c", "import os; print(os.getcwd())"], tmp_path / "one.log")
    process.start()
    monkeypatch.undo()
    wait_for(lambda: not process.alive)
    assert process.output() == f"{tmp_path}\n"


def test_a_child_dies_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    parent_code = (
        "import sys, time; from pathlib import Path; from kafka_zk.embedded.process import ChildProcess\n"
        f"child = ChildProcess('c', {SLEEPER!r}, Path({str(tmp_path / 'log')!r})); child.start()\n"
        "child.wait_until(lambda: 'up' in child.output(), 10, 'start'); print(child.pid, flush=True); time.sleep(60)"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen([sys.executable, "-c", parent_code], stdout=subprocess.PIPE, env=environ) as parent:
        assert parent.stdout
        child_pid = int(parent.stdout.readline())
        assert exists(child_pid)
        parent.kill()
    wait_for(lambda: not exists(child_pid))


def test_a_child_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    """The kernel kills a tied child when the thread that started it ends, and pool threads end soon."""
    code = "import itertools, time\nfor number in itertools.count(): print(number, flush=True); time.sleep(0.02)"
    child = ChildProcess("broker 7", [sys.executable, "-c", code], tmp_path / "log")

    def start() -> None:
        child.start()
        wait_for(lambda: child.output() != "")  # the child is tied by now

    starting = threading.Thread(target=start)
    starting.start()
    starting.join()
    wait_for(lambda: not Path(f"/proc/self/task/{starting.native_id}").exists())
    count = len(child.output().split())
    wait_for(lambda: len(child.output().split()) > count + 5 or not child.alive)
    assert child.alive
    child.kill()


def test_a_forked_process_starts_children_too(tmp_path: Path) -> None:
    """The fork does not have its parent's thread for this."""
    first = ChildProcess("first", [sys.executable, "-c", "pass"], tmp_path / "first")
    first.start()
    pid = os.fork()
    if pid == 0:
        try:
            second = ChildProcess("second", [sys.executable, "-c", "print('up')"], tmp_path / "second")
            second.start()
            wait_for(lambda: "up" in second.output())
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_command_that_is_interrupted_while_it_starts_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C reaches the main thread while another thread creates the process."""

    class Made:
        is_killed = False

        def kill(self) -> None:
            self.is_killed = True

        def wait(self) -> int:
            return -9

    made, may_start = Made(), threading.Event()

    def make() -> Any:
        assert may_start.wait(10)
        return made

    def interrupt(self: object) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Future, "result", interrupt)
        with pytest.raises(KeyboardInterrupt):
            starter.start(make)
    may_start.set()
    wait_for(lambda: made.is_killed)


@pytest.mark.parametrize("library", ["gevent", "eventlet"])
def test_green_threads_are_refused_with_a_sentence(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that waits for a process would block all others. gevent 25 and eventlet 0.40 cause this error."""
    module: Any = types.ModuleType(library)
    module.is_module_patched = lambda name: name == "threading"
    module.is_monkey_patched = lambda name: name == "thread"
    monkeypatch.setitem(sys.modules, {"gevent": "gevent.monkey", "eventlet": "eventlet.patcher"}[library], module)
    child = ChildProcess("broker 7", SLEEPER, tmp_path / "log")
    with pytest.raises(ProcessFailed, match=f"broker 7 cannot be started: {library} has replaced"):
        child.start()
    assert child.exit_code is None and not (tmp_path / "log").exists()
