"""The processes that a bench or a comparison starts die with it, however it ends."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.processes import ENVIRON, ROOT, running, wait_for_end

PARENT = """
import subprocess, sys, time
from pathlib import Path
from tests.peers.processes import ServerProcess, tied
server = ServerProcess("sleeper", ["sleep", "600"], Path(sys.argv[1]))
tool = subprocess.Popen(tied(["sleep", "600"]))
print(server.pid, tool.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_a_bench(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=ENVIRON
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2 and all(map(running, pids))
        parent.send_signal(number)
    wait_for_end(*pids)
