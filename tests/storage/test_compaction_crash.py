"""A cleaning that is interrupted by a kill or a power loss at each change that it makes to the disk.

The next start must find each key's last value and every offset unchanged, and be able to continue cleaning. It may
itself be killed during its repairs. Long runs: tests/soak/test_compaction.py.
"""

import random
import shutil
from pathlib import Path

import pytest

from kafka_zk.base.steps import run_to_end
from kafka_zk.storage.files import files
from kafka_zk.storage.files.file_pool import FilePool
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.log_loader import LogDependencies, load_log_steps
from tests.soak.power import JournaledDisk, Killed
from tests.storage.compacted import History, check
from tests.storage.helpers import TP

pytestmark = pytest.mark.slow


def make_history(path: Path, seed: int) -> History:
    """A flushed log with some segments; its first part may have been cleaned before."""
    rng = random.Random(seed)
    path.mkdir(exist_ok=True)
    history = History(path, rng)
    for _ in range(rng.randint(10, 40)):
        history.append()
        if rng.random() < 0.15:
            history.log.roll(history.now_ms)
        if rng.random() < 0.05:
            history.clean()
    history.log.roll(history.now_ms)
    history.append()
    history.log.flush()
    history.log.close()
    return history


def load(history: History, directory: Path, recovery_point: int) -> Log:
    log, dropped = run_to_end(
        load_log_steps(
            TP,
            str(directory),
            history.log.config,
            LogDependencies(FilePool()),
            history.now_ms,
            recovery_point=recovery_point,
            log_start_offset=0,
            clean_shutdown=False,
            is_contiguous=recovery_point > 0,  # compacted records are below the recovery point on disk
        )
    )
    assert dropped is None
    assert not [path for path in directory.iterdir() if path.suffix in (".cleaned", ".swap", ".deleted")]
    return log


def crash_once(history: History, folder: Path, number: int, kill_at: int, *, power: bool) -> bool:
    """Clean a copy and die at one change. The next process dies while it loads, and the one after it must succeed.
    Returns: whether the cleaning makes at least that number of changes.
    """
    rng = random.Random(f"{number} {kill_at}")
    root = folder / str(number)
    shutil.copytree(history.log.directory, root / "events-0")
    recovery_point = rng.choice((0, history.log.recovery_point))
    original, cleaned_offset = history.log, history.log.cleaned_offset
    was_killed = False

    def life(what: str, kill_at: int | None) -> None:
        """One process, and the state that the next one finds."""
        nonlocal root, was_killed
        disk = JournaledDisk(root, kill_at)
        try:
            with files.use(disk):
                history.log = load(history, root / "events-0", recovery_point)
                history.log.cleaned_offset = cleaned_offset
                disk.steps = 0
                if what == "clean":
                    history.clean()
        except Killed:
            was_killed = True
        finally:
            history.log.segments.close_files()
        if power:
            found = root.with_name(f"{root.name}-{what}-{rng.random()}")
            disk.lose_power(rng, found)
            root = found
        disk.forget()

    cleaned_at = list(history.cleaned_at)
    history.attempted_offset = original.log_end_offset
    life("clean", kill_at)
    killed_in_cleaning = was_killed
    life("load", rng.randint(1, 12))
    history.log = load(history, root / "events-0", recovery_point)
    history.log.cleaned_offset = cleaned_offset
    history.cleaned_at = [*cleaned_at, (history.now_ms, original.log_end_offset)]
    check(history)
    history.clean()
    history.attempted_offset = 0
    check(history)
    history.log.segments.close_files()
    history.log, history.cleaned_at = original, cleaned_at
    return killed_in_cleaning


def crash_everywhere(folder: Path, seed: int, *, power: bool) -> int:
    """Returns the number of changes that a cleaning makes."""
    history = make_history(folder, seed)
    kill_at = 1
    while crash_once(history, folder, kill_at, kill_at, power=power):
        kill_at += 1
    return kill_at


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
@pytest.mark.parametrize("seed", range(6))
def test_a_cleaning_may_end_anywhere(tmp_path: Path, seed: int, power: bool) -> None:
    assert crash_everywhere(tmp_path, seed, power=power) > 10
