"""``kafka-zk watch`` shows the same about a group of Apache Kafka's coordinator as about one of ours, without any
trace.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.integration.processes import ENVIRON, start
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

_GROUP, _TOPIC = "watched", "watched"
_TIMEOUT_S = 60
_LINES = [
    "anna joined: anna starts watched-0,1,2,3",
    "ben joined: anna→ben watched-NN; 2 never stopped; silent at most N ms",
    "anna is gone: anna→ben watched-NN; 2 never stopped; silent at most N ms",
]


@pytest.fixture
def join(target: Target) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """``join(name)``: a cooperative member of librdkafka's, as a process."""
    with ExitStack() as processes:

        def run(name: str) -> subprocess.Popen[bytes]:
            module = "tests.integration.groups.broker_group_member"
            arguments = ("confluent-kafka", target.bootstrap, _GROUP, _TOPIC, name, "cooperative-sticky")
            process = subprocess.Popen([sys.executable, "-m", module, *arguments], env=ENVIRON)
            processes.callback(process.wait)
            processes.callback(process.kill)
            return process

        yield run


def test_a_join_and_a_leave(target: Target, join: Callable[[str], subprocess.Popen[bytes]]) -> None:
    """A join is one rebalance, and so is a leave, although a cooperative join takes two generations."""
    target.create_topic(_TOPIC, partitions=4)
    watch = start("watch", "--group", _GROUP, "--bootstrap-server", target.bootstrap, "--rebalances", "3")
    try:
        assert watch.stdout is not None and watch.stderr is not None
        assert watch.stderr.readline() == f"waiting for members of group {_GROUP}\n"
        anna = join("anna")
        lines = [watch.stdout.readline()]
        join("ben")
        lines.append(watch.stdout.readline())
        anna.terminate()
        lines.append(watch.stdout.readline())
        assert watch.wait(_TIMEOUT_S) == 0
    finally:
        watch.kill()
        watch.wait()
    told = [re.sub(r"\d+ ms", "N ms", line[10:].rstrip()) for line in lines]
    told = [line.replace("silent N ms", "silent at most N ms") for line in told]
    assert [told[0], *(re.sub(r"watched-\d,\d", "watched-NN", line) for line in told[1:])] == _LINES
