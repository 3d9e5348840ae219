"""Durability, page cache, locks and secrets, with and without Linux's calls."""

import errno
import fcntl
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.base.operating_system import files

F_FULLFSYNC = 51
LOCKING = "import sys; from kafka_zk.base.operating_system.files import lock_inheritably; lock_inheritably(0, 1)"


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    with (tmp_path / "file").open("w+b") as file:
        yield file.fileno()


def test_data_are_synced_with_the_cheapest_call_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (files.sync, files.sync_data) == (os.fsync, os.fdatasync)
    monkeypatch.delattr(os, "fdatasync")
    found = runpy.run_path(files.__file__)
    assert (found["sync"], found["sync_data"]) == (os.fsync, os.fsync)


@pytest.mark.parametrize(
    ("answer", "fsyncs"), [(None, 0), (errno.ENOTSUP, 1), (errno.EINVAL, 1), (errno.ENOTTY, 1)]
)
def test_on_macos_the_drive_is_synced_too_if_the_file_system_can(
    answer: int | None, fsyncs: int, descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(fcntl, "fcntl", _answering(answer))
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", F_FULLFSYNC, raising=False)
    monkeypatch.setattr(os, "fsync", calls.append)
    found = runpy.run_path(files.__file__)
    assert found["sync"] is found["sync_data"]
    found["sync"](descriptor)
    assert calls == [descriptor] * fsyncs


def test_an_error_of_the_drive_is_raised(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "fcntl", _answering(errno.EIO))
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", F_FULLFSYNC, raising=False)
    with pytest.raises(OSError, match="Input/output error"):
        runpy.run_path(files.__file__)["sync"](descriptor)


def _answering(error: int | None) -> Callable[[int, int], Any]:
    def call(descriptor: int, command: int) -> None:
        assert command == F_FULLFSYNC
        if error is not None:
            raise OSError(error, os.strerror(error))

    return call


def test_nothing_is_known_to_be_cached_where_nothing_can_be_asked(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.write(descriptor, b"x")
    assert files.is_cached(descriptor, [0])
    monkeypatch.delattr(os, "RWF_NOWAIT")
    assert not runpy.run_path(files.__file__)["is_cached"](descriptor, [0])


@pytest.mark.slow
def test_a_lock_of_a_file_excludes_others_where_there_are_such_locks(
    descriptor: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.lock_inheritably(descriptor, 1)
    files.lock_inheritably(descriptor, 1)
    with (tmp_path / "file").open("r+b") as other:
        done = subprocess.run([sys.executable, "-c", LOCKING], stdin=other, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 1 and b"BlockingIOError" in done.stderr
        monkeypatch.delattr(fcntl, "F_OFD_SETLK")
        runpy.run_path(files.__file__)["lock_inheritably"](other.fileno(), 1)


def test_a_lock_has_the_fields_of_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    """off_t start, off_t length, pid_t, short type, short whence; 24 bytes."""
    monkeypatch.setattr(sys, "platform", "darwin")
    lock = files._write_lock(1)
    assert len(lock) == 24
    assert lock[:20] == (1).to_bytes(8, sys.byteorder) + (1).to_bytes(8, sys.byteorder) + bytes(4)


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_secret_is_readable_by_this_user_only_and_leaves_no_file(
    in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create")
    with files.secret_file(b"secret") as path:
        assert Path(path).read_bytes() == b"secret"
        assert len(list(tmp_path.iterdir())) == (not in_memory)
        assert in_memory or Path(path).stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == []
