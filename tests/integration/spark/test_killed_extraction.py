"""The helper of the tests that kill extractions: which runs it repeats, and how often, without Spark or a cluster."""

import subprocess
import sys

import pytest

from tests.integration.spark.extraction_process import Kill
from tests.integration.spark.killed_extraction import RUNS, ZOOKEEPER_LOST, KilledExtraction


class Runs(KilledExtraction):
    """Runs that each print the next text, the last one repeatedly, and end with exit code 1."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts
        self.started = 0

    def start(self, kill: Kill | None = None, *more: str) -> "subprocess.Popen[str]":
        text = self._texts[min(self.started, len(self._texts) - 1)]
        self.started += 1
        command = [sys.executable, "-S", "-c", "import sys; sys.exit(sys.argv[1])", text]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_run_that_lost_zookeeper_is_repeated() -> None:
    runs = Runs(ZOOKEEPER_LOST, "Error: the disk is full")
    assert runs.run().stderr == "Error: the disk is full\n"
    assert runs.started == 2


def test_runs_that_lose_it_always_fail_the_test() -> None:
    runs = Runs(f"{ZOOKEEPER_LOST}: words")
    with pytest.raises(AssertionError, match=f"{RUNS} runs in a row have lost ZooKeeper, the last so: .*words"):
        runs.run()
    assert runs.started == RUNS
