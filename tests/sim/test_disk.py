"""The simulated disk returns what the operating system would, and loses unsynced data."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kafka_zk.sim.machine.disk import SimDisk
from kafka_zk.storage.files import files
from kafka_zk.storage.files.files import FileSystem

STEPS = 400
NAMES = ("a", "b", "d", "d/a", "d/e", "d/e/f")


def made_disk() -> SimDisk:
    disk = SimDisk(lambda: 0)
    disk.make_directory("/x")
    return disk


def answer(work: Callable[[], object]) -> object:
    """The result of a call, or its error."""
    try:
        return work()
    except OSError as error:
        return type(error).__name__


def step(random: Random, root: str) -> object:
    """One random call on a path below ``root``, determined by the state of ``random``."""
    path, other = (f"{root}/{random.choice(NAMES)}" for _ in range(2))
    data = random.randbytes(random.randint(0, 2_000))
    position = random.randint(0, 3_000)
    calls: tuple[Callable[[], object], ...] = (
        lambda: files.write_file(path, data),
        lambda: files.write_atomically(path, data),
        lambda: files.write_end(path, position, data),
        lambda: files.read_file(path),
        lambda: files.rename(path, other),
        lambda: files.remove_file(path),
        lambda: files.remove_tree(path) if random.random() < 0.2 else None,
        lambda: files.make_directory(path, durable=True),
        lambda: sorted(files.list_directory(path)),
        lambda: files.size_bytes(path) if not files.is_directory(path) else "directory",
        lambda: (files.exists(path), files.is_directory(path), files.is_taken(path)),
        lambda: _appended(path, data),
        lambda: _mapped(path),
    )
    return answer(random.choice(calls))


def _appended(path: str, data: bytes) -> object:
    descriptor = files.open_to_append(path)
    try:
        files.write_all(descriptor, data)
        return files.pread(descriptor, 100, 50)
    finally:
        files.close(descriptor)


def _mapped(path: str) -> object:
    if files.is_directory(path) or not files.size_bytes(path):
        return None
    with files.mapped(path) as view:
        return bytes(view)


@pytest.mark.parametrize("seed", range(20))
def test_it_answers_as_the_operating_system_does(seed: int, tmp_path: Path) -> None:
    answers = []
    for system, root in ((FileSystem(), str(tmp_path)), (made_disk(), "/x")):
        random = Random(seed)
        with files.use(system):
            answers.append([step(random, root) for _ in range(STEPS)])
    for number, (real, simulated) in enumerate(zip(*answers, strict=True)):
        assert real == simulated, f"call {number}"
    assert len(Counter(map(str, answers[0]))) > 20  # the calls have many different results


def test_what_was_synced_outlives_a_power_loss_and_the_rest_may_not() -> None:
    survivors = Counter[tuple[bool, bool]]()
    for seed in range(40):
        disk = made_disk()
        with files.use(disk):
            files.make_directory("/x/durable", durable=True)
            files.write_atomically("/x/durable/file", b"synced")
            files.sync_path("/x")
            files.write_file("/x/cached", b"not synced")
            disk.lose_power("/x", Random(seed))
            assert files.read_file("/x/durable/file") == b"synced"
            survivors[files.exists("/x/cached"), files.read_file("/x/cached") == b"not synced"] += 1
    assert set(survivors) == {(False, False), (True, False), (True, True)}


def test_a_directory_is_lost_with_all_in_it_if_its_name_was_not_synced() -> None:
    outcomes = set()
    for seed in range(20):
        disk = made_disk()
        with files.use(disk):
            files.make_directory("/x/d")
            files.write_atomically("/x/d/file", b"synced")
            disk.lose_power("/x", Random(seed))
            outcomes.add(files.read_file("/x/d/file"))
    assert outcomes == {None, b"synced"}


def test_a_lock_ends_with_its_process() -> None:
    disk = made_disk()
    with files.use(disk):
        assert files.open_locked("/x/.lock") is not None and files.open_locked("/x/.lock") is None
        disk.close_all("/x")
        assert files.open_locked("/x/.lock") is not None and disk.open_count == 1


def test_a_fault_meets_the_operations_that_it_names() -> None:
    disk = made_disk()
    disk.fault = lambda operation, path: OSError(28, os.strerror(28), path) if operation == "write" else None
    with files.use(disk):
        assert answer(lambda: files.write_file("/x/a", b"data")) == "OSError"
        assert answer(lambda: files.write_file("/x/b")) is None
