"""Random histories of compacted logs against the model, and interrupted cleanings, for many seeds."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from kafka_zk.native.loading import Implementation
from kafka_zk.storage.cleaner import cleaner
from tests.storage.cleaner.test_cleaner_model import run_history
from tests.storage.test_compaction_crash import crash_everywhere

pytestmark = pytest.mark.slow

HISTORIES = 4  # per seed: 2,000 in a campaign of 500 seeds


@pytest.mark.parametrize("is_native", [False, True], ids=["python", "native"])
def test_random_histories_keep_the_last_values(
    tmp_path: Path,
    campaign_seed: int,
    is_native: bool,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    found = Implementation(request.getfixturevalue("native") if is_native else None)
    monkeypatch.setattr(cleaner, "implementation", lambda: found)
    for number in range(HISTORIES):
        run_history(tmp_path / str(number), campaign_seed * HISTORIES + number)


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_a_cleaning_may_end_anywhere(tmp_path: Path, campaign_seed: int, power: bool) -> None:
    with ProcessPoolExecutor(1, get_context("fork")) as process:  # this closes the files that killed processes had open
        assert process.submit(crash_everywhere, tmp_path, campaign_seed, power=power).result() > 1
