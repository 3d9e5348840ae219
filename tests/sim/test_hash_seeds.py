"""A seed gives the same history in processes with different hash seeds: nothing depends on the order of a set."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration  # seconds of work in one process

_DIGEST = "from kafka_zk.sim.{module} import {play}; print({play}({arguments}).history.digest())"
_IN_TESTS = "from tests.sim.{module} import {play}; print({play}({arguments}).history.digest())"


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(_DIGEST.format(module="campaign.run", play="play", arguments="3"), id="one replica"),
        pytest.param(
            _IN_TESTS.format(module="replicated", play="play_replicated", arguments="0"),
            id="replicated",
            marks=pytest.mark.long,  # transactions also cover replication
        ),
        pytest.param(
            _IN_TESTS.format(module="transactional", play="play_transactional", arguments="206, faults_ms=3_000"),
            id="transactions",
        ),
        pytest.param(
            _IN_TESTS.format(module="extraction.drivers", play="play_extraction", arguments="1"), id="extraction"
        ),
    ],
)
def test_a_seed_is_the_same_history_whatever_the_hash_seed(code: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    first, second = [process.communicate()[0] for process in processes]
    assert first == second
    assert len(first.strip()) == 16
