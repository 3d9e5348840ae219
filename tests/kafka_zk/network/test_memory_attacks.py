"""The memory that requests may cost: each attack has a listener in a process of its own, whose memory is measured."""

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.slow

BUDGET_MB = 96
"""The limit of the memory pool; see DEFAULT_LIMIT_BYTES."""


def _run(attack: str) -> dict[str, Any]:
    """The memory in MB before the attack, at its peak and after it, and the log."""
    command = [sys.executable, "-m", "tests.kafka_zk.network.memory_attacks", attack]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_a_connection_cut_in_the_middle_of_a_frame_leaves_nothing_behind() -> None:
    """Ten clients send 95 MB of 100 MB each. In an earlier version, these stayed until the garbage collector ran."""
    memory = _run("cut")
    assert memory["peak"] - memory["before"] < 110
    assert memory["after"] - memory["before"] < 10


def test_a_refused_request_leaves_nothing_behind() -> None:
    memory = _run("malformed")
    assert memory["after"] - memory["before"] < 10
    assert len(memory["log"]) == 10
    assert all(" closed: " in line for line in memory["log"])


def test_memory_grows_with_what_has_arrived() -> None:
    """500 clients announce 100 MB and send 1 KB."""
    memory = _run("announced")
    assert memory["peak"] - memory["before"] < 20


@pytest.mark.parametrize("attack", ["held", "held_small"])
def test_memory_has_a_ceiling(attack: str) -> None:
    """Clients with incomplete requests get the budget and one more big request at most."""
    memory = _run(attack)
    assert memory["peak"] - memory["before"] < BUDGET_MB + 100 + 25
