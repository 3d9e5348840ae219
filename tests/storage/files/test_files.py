"""The functions that perform all file access: their promises, and their replacement by another file system."""

import os
from pathlib import Path

import pytest

from kafka_zk.storage.files import files
from kafka_zk.storage.files.log_config import LogConfig
from tests.storage.faults import IO_ERROR, NO_SPACE, FaultyFiles
from tests.storage.helpers import T0, TP, append, batch, new_log, read_offsets, reopen
from tests.storage.manager.test_log_manager import manager


def test_everything_goes_through_the_file_system_in_use(tmp_path: Path) -> None:
    """Afterwards, the operating system's file system is in use again."""
    system = FaultyFiles()
    with files.use(system):
        files.write_atomically(f"{tmp_path}/a", b"1")
    files.write_atomically(f"{tmp_path}/b", b"2")
    assert system.calls == {"open": 1, "sync": 2, "rename": 1, "read": 1}
    assert files.write is os.write and files.pread is os.pread


@pytest.mark.parametrize("operation", ["open", "sync", "rename"])
def test_a_failure_on_the_way_leaves_the_old_content(tmp_path: Path, faults: FaultyFiles, operation: str) -> None:
    """The old content stays, whichever step of the replacement fails."""
    path = f"{tmp_path}/checkpoint"
    files.write_atomically(path, b"old")
    faults.fail(operation)
    with pytest.raises(OSError):
        files.write_atomically(path, b"new")
    assert files.read_file(path) == b"old"


def test_files_are_written_anew_at_their_end_and_read_whole(tmp_path: Path) -> None:
    """Appends and reads use several pieces."""
    path = f"{tmp_path}/index"
    assert files.read_file(path) is None
    files.write_end(path, 0, b"x" * 200_000)
    files.write_end(path, 199_999, b"yz")
    assert files.read_file(path) == b"x" * 199_999 + b"yz"
    assert files.size_bytes(path) == 200_001
    with files.mapped(path) as view:
        assert bytes(view[-2:]) == b"yz"
    files.write_file(path, b"new")
    assert files.read_file(path) == b"new"
    files.write_file(path)
    assert files.read_file(path) == b""


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    """The operator who starts a broker must know which file failed."""
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        files.read_file(str(tmp_path))


def test_a_directory_is_made_with_those_above_it(tmp_path: Path) -> None:
    """An existing directory is accepted; an existing file is an error."""
    files.make_directory(f"{tmp_path}/a/b/c")
    files.make_directory(f"{tmp_path}/a/b/c")
    assert files.list_directory(f"{tmp_path}/a") == [("b", True)]
    (tmp_path / "file").write_bytes(b"")
    for path in ("file", "file/below"):
        with pytest.raises(OSError):
            files.make_directory(f"{tmp_path}/{path}")
    files.remove_tree(f"{tmp_path}/a")
    files.remove_tree(f"{tmp_path}/a")
    files.remove_file(f"{tmp_path}/file")
    files.remove_file(f"{tmp_path}/file")
    assert files.list_directory(str(tmp_path)) == []


def test_a_name_is_taken_by_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    """The link's target does not exist."""
    path = f"{tmp_path}/link"
    os.symlink(f"{tmp_path}/nowhere", path)
    assert files.is_taken(path) and not files.exists(path) and files.status(path) is None
    with pytest.raises(FileNotFoundError):
        files.size_bytes(path)


def test_a_short_write_goes_on(tmp_path: Path, faults: FaultyFiles) -> None:
    """The operating system may write only a part of the data."""
    faults.writes = [1, 2]
    files.write_file(f"{tmp_path}/a", b"abcdef")
    assert files.read_file(f"{tmp_path}/a") == b"abcdef"
    faults.writes = [1, NO_SPACE]
    with pytest.raises(OSError, match="No space"):
        files.write_file(f"{tmp_path}/a", b"abcdef")


@pytest.mark.parametrize("operation", ["open", "truncate", "sync_data", "rename", "sync", "entries"])
def test_a_truncation_that_fails_is_told_and_loses_nothing_before_it(
    tmp_path: Path, faults: FaultyFiles, operation: str
) -> None:
    """The next start finds at least the records that the truncation should keep."""
    log = new_log(tmp_path, segment_bytes=300, index_interval_bytes=0)
    for _ in range(6):
        append(log, batch(value=b"x" * 60))
    log.flush()
    faults.fail(operation)
    with pytest.raises(OSError) as raised:
        log.truncate_to(1)
    assert raised.value is IO_ERROR
    faults.heal()
    log.segments.close_files()
    recovered, _ = reopen(log)
    assert read_offsets(recovered)[:1] == [0]
    assert read_offsets(recovered) == list(range(recovered.log_end_offset))


def test_a_log_that_cannot_be_made_costs_its_directory(tmp_path: Path, faults: FaultyFiles) -> None:
    """The next attempt creates the log in the other directory."""
    logs = manager(tmp_path / "1", tmp_path / "2", default_config=LogConfig(), on_directory_failure=lambda *_: None)
    logs.start({})
    faults.fail("make_directory", tmp_path / "1", NO_SPACE)
    with pytest.raises(OSError, match="No space"):
        logs.get_or_create(TP, topic_id="YTI9vJfzQOepxQr8vcaMoQ")
    assert logs.live_directories == [tmp_path / "2"]
    append(logs.get_or_create(TP, topic_id="YTI9vJfzQOepxQr8vcaMoQ"), batch(), now_ms=T0)
    assert logs.log_dir_of(TP) == tmp_path / "2"
    logs.shutdown()
