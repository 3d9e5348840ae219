"""Small requests for large results exhaust neither the broker's memory nor other clients' time."""

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.slow

LONGEST_TURN_MS = 500
"""The limit is far above the intended time, because these tests share their machine; without bounds it was seconds to
minutes.
"""


def _run(attack: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.fuzz.request_attacks", attack]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert not result["failures"]
    assert result["peak"] < 300
    assert result["longest_turn_ms"] < LONGEST_TURN_MS
    closed = [line for line in result["log"] if " closed: " in line]
    assert len(closed) == result["ends"].count("closed")
    return result


@pytest.mark.parametrize(
    ("attack", "reasons"),
    [
        ("names", ["at most 16777216 are allowed", "elements more than allowed for this message"]),
        ("header_tags", ["tagged fields, at most", "bytes of tagged fields"]),
        ("long_string", ["at most 16777216 are allowed"]),
    ],
)
def test_what_no_client_needs_closes_the_connection(attack: str, reasons: list[str]) -> None:
    """25 million names, 20 MB of tagged fields, a name of 50 MB: each logs one line, as any malformed request does."""
    result = _run(attack)
    assert result["ends"] == ["closed"] * len(reasons)
    for line, reason in zip(result["log"], reasons, strict=True):
        assert reason in line


@pytest.mark.parametrize("attack", ["many_names", "one_name", "batches", "epochs"])
def test_what_large_clusters_need_is_answered_in_turns(attack: str) -> None:
    result = _run(attack)
    assert result["ends"][-1].startswith("answered")


def test_a_topic_asked_for_again_and_again_is_answered_once() -> None:
    """Otherwise, a small request would cause a huge response."""
    assert _run("one_name")["ends"] == ["answered with 131 bytes"]


def test_fetch_sessions_of_unknown_partitions_cost_nothing() -> None:
    result = _run("sessions")
    assert result["kept_bytes"] == 0
    assert result["peak"] - result["before"] < 60


def test_a_dry_run_of_many_partitions_costs_little() -> None:
    """The dry run is CreateTopics with 100 topics of 50,000 partitions in 2.7 KB."""
    result = _run("create_topics")
    assert result["peak"] - result["before"] < 60


def test_work_for_a_client_that_is_gone_ends() -> None:
    """Its memory is released."""
    assert _run("hang_up")["ends"] == ["stopped"]
