"""A cluster starts, stores a record and leaves nothing behind wherever a project runs its tests.

Each row is an environment in which, according to a public bug report, a test broker failed.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration.processes import ROOT

pytestmark = pytest.mark.integration

TIMEOUT_S = 300
_PROGRAM = """\
from kafka_zk import BlockingProducer
from kafka_zk.testing import Cluster


def use():
    with Cluster() as cluster:
        cluster.create_topic("orders")
        with BlockingProducer(bootstrap_servers=cluster.bootstrap) as producer:
            print("offset", producer.send("orders", b"an order").result().offset, flush=True)


if __name__ == "__main__":
    {call}
"""


class Environment(NamedTuple):
    """``variables``: environment variables to set; None removes one. ``folder``: the name of the temporary folder.
    ``before``: Python code that runs first. ``call``: Python code that calls ``use``.
    """

    variables: Mapping[str, str | None] = {}
    folder: str = "tmp"
    before: str = ""
    call: str = "use()"


_NO_HOME = {"HOME": "/dev/null/home", "XDG_CACHE_HOME": "/dev/null/cache"}
_C = {"LANG": "C", "LC_ALL": "C"}
_UMASK = "import os; os.umask(0o077)"
_THREAD = "import threading; thread = threading.Thread(target=use); thread.start(); thread.join()"

EVERYTHING = Environment(
    {**_NO_HOME, **_C, "TZ": "Asia/Kathmandu", "PYTHONWARNINGS": "error", "PYTHONOPTIMIZE": "2"},
    "a folder für 試験",
    _UMASK,
    _THREAD,
)
"""All settings that can be combined, in a single start."""

ENVIRONMENTS = {
    # folders: KAFKA-4860, testcontainers-java#8637, karapace#161
    "spaces and other letters in TMPDIR": Environment(folder="a folder für 試験"),
    "a long TMPDIR": Environment(folder="/".join(["long" * 20] * 3)),
    "special characters in TMPDIR": Environment(folder="100% #1 & $HOME=\\t"),
    "a current folder that was removed": Environment(
        before="import os, tempfile; folder = tempfile.mkdtemp(); os.chdir(folder); os.rmdir(folder)"
    ),
    # users: testcontainers-java#2774, testcontainers-node#210
    "a home that cannot be written": Environment(_NO_HOME),
    "no home": Environment({"HOME": None, "USER": None, "LOGNAME": None}),
    "umask 077": Environment(before=_UMASK),
    "umask 000": Environment(before="import os; os.umask(0)"),
    "few descriptors": Environment(before="import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096))"),
    # languages and times
    "no locale": Environment(_C, "für"),
    "no locale and no UTF-8": Environment(
        {**_C, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    ),
    "an unknown locale": Environment({"LANG": "xx_XX.UTF-8", "LC_ALL": "xx_XX.UTF-8"}),
    "Turkish": Environment({"LC_ALL": "tr_TR.UTF-8", "JAVA_TOOL_OPTIONS": "-Duser.language=tr -Duser.country=TR"}),
    "a time zone of 45 minutes": Environment({"TZ": "Asia/Kathmandu"}),
    "an unknown time zone": Environment({"TZ": "Nowhere/Land"}),
    # Python and Java: spring-kafka#194
    "warnings as errors": Environment({"PYTHONWARNINGS": "error", "PYTHONDEVMODE": "1"}),
    "no assertions or docstrings": Environment({"PYTHONOPTIMIZE": "2"}),
    "no module of the current folder": Environment({"PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}),
    "an interpreter that stays": Environment({"PYTHONINSPECT": "1", "PYTHONUNBUFFERED": "1"}),
    "a CLASSPATH and options for other servers": Environment(
        {"CLASSPATH": "/nowhere/*", "JVMFLAGS": "-Xmx1m", "KAFKA_OPTS": "-Dno.such=1", "KAFKA_HEAP_OPTS": "-Xmx1m"}
    ),
    "a proxy for HTTP": Environment({"http_proxy": "http://127.0.0.1:9", "ALL_PROXY": "socks5://127.0.0.1:9"}),
    # processes and threads: testcontainers-python#805, dd-trace-py#17783
    "another thread": Environment(call=_THREAD),
    "asyncio": Environment(call="import asyncio; asyncio.run(asyncio.to_thread(use))"),
    "a running event loop": Environment(
        before="import asyncio", call="exec('async def main(): use()'); asyncio.run(main())"
    ),
    "a forked process": Environment(
        before="import multiprocessing",
        call="forked = multiprocessing.get_context('fork').Process(target=use); forked.start(); forked.join()",
    ),
    "a spawned process": Environment(
        before="import multiprocessing",
        call="child = multiprocessing.get_context('spawn').Process(target=use); child.start(); child.join()",
    ),
    "unittest": Environment(
        before="import unittest",
        call="unittest.FunctionTestCase(use).debug()",
    ),
    "children that are not waited for": Environment(
        before="import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    ),
    "closed standard input": Environment(before="import os; os.close(0)"),
    "the usual ports are taken": Environment(
        before="import socket\nfor port in (2181, 9092):\n"
        "    try: taken = [*globals().get('taken', []), socket.create_server(('127.0.0.1', port))]\n"
        "    except OSError: pass"
    ),
}


def run(environment: Environment, tmp_path: Path) -> "subprocess.CompletedProcess[str]":
    folder = tmp_path / environment.folder
    folder.mkdir(parents=True)
    program = tmp_path / "program.py"
    program.write_text(f"{environment.before}\n{_PROGRAM.replace('{call}', environment.call)}")
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder), **environment.variables}
    done = subprocess.run(
        [sys.executable, program],
        env={name: value for name, value in variables.items() if value is not None},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.stdout == "offset 0\n", done.stdout + done.stderr
    assert done.returncode == 0, done.stderr
    assert not [path.name for path in folder.iterdir() if path.name.startswith("kafka-zk")]
    return done


def test_a_cluster_works_in_a_difficult_environment(tmp_path: Path) -> None:
    run(EVERYTHING, tmp_path)


@pytest.mark.one_in(3)
@pytest.mark.long
@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_a_cluster_works_in_each_environment(environment: Environment, tmp_path: Path) -> None:
    run(environment, tmp_path)
