"""Connections alone cannot use up the descriptors that a broker needs."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_a_broker_with_more_connections_than_it_may_open_files_keeps_its_logs() -> None:
    """Topics are created while a hostile client holds all available connections."""
    command = [sys.executable, "-m", "tests.fuzz.few_descriptors"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["live"] == 1
    assert not result["fatal"]
    assert not result["failures"]
    assert 50 <= result["taken"] <= 100
    assert sum("new connections wait" in line for line in result["log"]) == 1
