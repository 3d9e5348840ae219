"""Random histories against a model: a dictionary of last values and a list of offsets. Long runs: tests/soak."""

import random
from pathlib import Path

import pytest

from kafka_zk.storage.cleaner.cleaner import CleanerConfig
from tests.storage.compacted import SMALL, History, check
from tests.storage.helpers import reopen


def run_history(path: Path, seed: int, steps: int = 120) -> History:
    """Appends, rolls and cleanings in random order, with all checks after each cleaning."""
    rng = random.Random(seed)
    path.mkdir(exist_ok=True)
    history = History(path, rng)
    tiny = CleanerConfig(dedupe_buffer_bytes=24 * rng.choice((30, 60)), io_buffer_bytes=256)  # several rounds
    config = rng.choice((SMALL, tiny))
    for _ in range(rng.randint(1, steps)):
        what = rng.random()
        if what < 0.85:
            history.append()
        elif what < 0.9:
            history.log.roll(history.now_ms)
        else:
            history.clean(config)
            check(history)
            if rng.random() < 0.2:
                cleaned_offset, recovery_point = history.log.cleaned_offset, history.log.recovery_point
                found = rng.choice((0, recovery_point))
                history.log, dropped = reopen(history.log, recovery_point=found, is_contiguous=found > 0)
                history.log.cleaned_offset = cleaned_offset
                assert dropped is None
                check(history)
    return history


@pytest.mark.parametrize("seed", range(60))
def test_a_random_history_keeps_the_last_values(tmp_path: Path, seed: int) -> None:
    run_history(tmp_path, seed)
