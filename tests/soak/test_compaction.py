"""Random histories of compacted logs against the model, and cleanings that end in the middle, for many seeds."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from kafka_zk.storage.cleaner import cleaner
from tests.storage.cleaner.test_cleaner_model import run_history
from tests.storage.test_compaction_crash import crash_everywhere

pytestmark = pytest.mark.slow

HISTORIES = 4  # a seed: 2,000 in a campaign of 500


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
def test_random_histories_keep_the_last_values(
    tmp_path: Path, campaign_seed: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled:
        pytest.importorskip("numba")
        monkeypatch.setattr(cleaner, "KERNEL_BYTES", 0)
        monkeypatch.setattr(cleaner, "COMPILE_BYTES", 0)
    for number in range(HISTORIES):
        run_history(tmp_path / str(number), campaign_seed * HISTORIES + number)


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_a_cleaning_may_end_anywhere(tmp_path: Path, campaign_seed: int, power: bool) -> None:
    with ProcessPoolExecutor(1, get_context("fork")) as process:  # what killed lives had open goes with it
        assert process.submit(crash_everywhere, tmp_path, campaign_seed, power=power).result() > 1
