"""A command ends with the process that started it, even without the kernel's help."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_zk.base.operating_system import launch
from tests.integration.processes import running, wait_for, wait_for_end

pytestmark = pytest.mark.integration
WITHOUT_PRCTL = f"""
import ctypes, runpy, sys
ctypes.CDLL = lambda name: object()
runpy.run_path({launch.__file__!r}, run_name="__main__")
"""
PARENT = """
import subprocess, sys, os
launched = [sys.executable, "-c", sys.argv[1], str(os.getpid()), "sleep", "60"]
with subprocess.Popen(launched, stdout=sys.stdout) as child:
    print(child.pid, flush=True)
"""


def test_a_command_dies_with_a_parent_that_was_killed() -> None:
    command = [sys.executable, "-c", PARENT, WITHOUT_PRCTL]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        wait_for(lambda: Path(f"/proc/{child}/cmdline").read_bytes() == b"sleep\x0060\x00", "the command runs")
        assert running(child)
        parent.kill()
        parent.wait()
        wait_for_end(child)


def test_what_looks_for_the_parent_holds_no_pipe_and_ends_with_the_command() -> None:
    """A supervisor takes end of file on a pipe to mean that the command has ended."""
    reading, writing = os.pipe()
    printing = [sys.executable, "-c", "import os; print(os.getpid())"]
    command = [sys.executable, "-c", WITHOUT_PRCTL, str(os.getpid()), *printing]
    with subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=[writing], text=True) as child:
        os.close(writing)
        assert child.stdout
        assert int(child.stdout.readline()) == child.pid
        assert os.read(reading, 1) == b""
    os.close(reading)
    assert child.returncode == 0
