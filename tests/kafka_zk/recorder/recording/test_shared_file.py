"""One file to share a recording: it contains what was saved, without secrets; any other file is refused with a
sentence.
"""

import errno
import json
import signal
import sqlite3
import zlib
from pathlib import Path

import pytest

from kafka_zk.recorder.recording import znode_history
from kafka_zk.recorder.recording.database import open_database
from kafka_zk.recorder.recording.errors import NoRecording
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.recording.shared_file import is_shared_file, open_shared_file, save
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, DataSet, Transaction

SCRAM, HMAC, PASSWORD = (f"{name}-c2VjcmV0" for name in ("scram", "hmac", "password"))
SECRETS = {
    "/config/users/alice": {"version": 1, "config": {"SCRAM-SHA-256": SCRAM}},
    "/delegation_token/tokens/t": {"version": 1, "hmac": HMAC},
    "/config/brokers/0": {"version": 1, "config": {"listener.name.ssl.key.password": PASSWORD}},
}


@pytest.fixture
def recording() -> Recording:
    """A recording of an earlier version, which kept secrets."""
    recording = Recording()
    created = [Created(path, json.dumps(data).encode(), False) for path, data in SECRETS.items()]
    recording.add([], [Transaction(1, 1_000, 0, tuple(created))])
    written = [Transaction(zxid, 1_000 + zxid, 0, (DataSet("/a", b"%d" % zxid, zxid),)) for zxid in range(3, 500)]
    recording.add([], [Transaction(2, 1_001, 0, (Created("/a", b"", False),)), *written])
    return recording


@pytest.fixture
def file(recording: Recording, tmp_path: Path) -> Path:
    save(recording, tmp_path / "recording.kzr", 1, recording.entries.count)
    return tmp_path / "recording.kzr"


def test_it_holds_what_was_recorded_without_secrets(recording: Recording, file: Path) -> None:
    """The file has no secrets, neither in the entries nor in the znodes before them."""
    assert is_shared_file(file)
    again = open_shared_file(file)
    assert again.entries.count == recording.entries.count
    assert again.znodes.after(300).znodes == recording.znodes.after(300).znodes
    database = zlib.decompress(file.read_bytes()[44:])
    assert b"/config/users/alice" in database
    assert not [each for each in (SCRAM, HMAC, PASSWORD) if each.encode() in database]
    save(recording, file.with_name("part.kzr"), 100, 200)
    part = open_shared_file(file.with_name("part.kzr"))
    assert (part.entries.first, part.entries.count) == (100, 200)
    znodes = part.znodes.after(99).znodes
    assert set(SECRETS) < set(znodes) and SCRAM not in str(znodes)
    assert file.stat().st_size < len(database) / 4


def test_a_file_that_exists_is_not_replaced(recording: Recording, file: Path) -> None:
    with pytest.raises(FileExistsError):
        save(recording, file, 1, 2)


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.001, 0.5, 0.999])
def test_a_file_that_is_cut_off_is_refused(file: Path, share: float) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: 4 + int(share * (len(content) - 4))])
    with pytest.raises(NoRecording, match=r"recording\.kzr is cut off: copy it again"):
        open_shared_file(file)


@pytest.mark.parametrize("place", [4, 11, 12, 43, 44, 100, -1])
def test_a_file_with_a_wrong_byte_is_refused(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 0x40
    file.write_bytes(content)
    with pytest.raises(NoRecording, match=r"is damaged|is cut off|would need"):
        open_shared_file(file)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a zip", b"KZ"])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)
    assert not is_shared_file(tmp_path / "other")
    with pytest.raises(NoRecording, match="is not a recording of kafka-zk web"):
        open_shared_file(tmp_path / "other")


def test_what_unpacks_to_more_than_it_says_is_refused(file: Path) -> None:
    """Unpacking does not write more than the announced size to the disk."""
    content = bytearray(file.read_bytes())
    content[4:12] = (10).to_bytes(8, "big")
    file.write_bytes(content)
    with pytest.raises(NoRecording, match="is damaged"):
        open_shared_file(file)


def test_a_database_that_is_cut_off_is_refused(tmp_path: Path, file: Path) -> None:
    database = zlib.decompress(file.read_bytes()[44:])
    (tmp_path / "whole").write_bytes(database)
    open_database(tmp_path / "whole", read_only=True).close()
    (tmp_path / "cut").write_bytes(database[: len(database) // 2])
    with pytest.raises(NoRecording, match=f"cut is cut off: it has {len(database) // 2} of {len(database)} bytes"):
        open_database(tmp_path / "cut", read_only=True)


ENDLESS = "with recursive n(x) as (select 1 union all select x + 1 from n) select"


@pytest.mark.parametrize(
    "foreign",
    [
        f"drop table spans; create view spans as {ENDLESS} x as id, '', '', '', '', 1, 2 from n",
        "create trigger t after insert on meta begin select 1; end",
        "drop table samples; create table samples (series text, time_ms integer, value as (zeroblob(1000000)))",
        "create virtual table more using fts5(x)",
    ],
)
def test_a_database_with_more_than_a_recordings_tables_is_refused(tmp_path: Path, file: Path, foreign: str) -> None:
    """A view with an endless query would block the program."""
    database = sqlite3.connect(_unpacked(file, tmp_path))
    database.executescript(foreign)
    database.close()
    with pytest.raises(NoRecording, match="has tables that a recording does not have"):
        open_database(tmp_path / "unpacked", read_only=True)


def _unpacked(file: Path, folder: Path) -> Path:
    (folder / "unpacked").write_bytes(zlib.decompress(file.read_bytes()[44:]))
    return folder / "unpacked"


@pytest.mark.parametrize(
    "packed", [zlib.compress(bytes(9_000)), b"nonsense", zlib.compress(b"[" * 5_000), zlib.compress(b"7")]
)
def test_a_checkpoint_that_cannot_be_is_refused(
    tmp_path: Path, file: Path, packed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among others, the checkpoints contain one that would fill the memory."""
    monkeypatch.setattr(znode_history, "MOST_CHECKPOINT_BYTES", 8_000)
    database = sqlite3.connect(_unpacked(file, tmp_path))
    database.execute("insert or replace into checkpoints values (?, ?)", (400, packed))
    database.commit()
    database.close()
    with pytest.raises(NoRecording, match="unpacked is damaged"):
        Recording(tmp_path / "unpacked", read_only=True)


def test_ctrl_c_ends_a_query_of_a_file_from_elsewhere(tmp_path: Path, file: Path) -> None:
    """Python handles signals only between its own instructions, not during a query."""
    database = open_database(_unpacked(file, tmp_path), read_only=True)
    before = signal.signal(signal.SIGALRM, lambda *_: database.interrupt())
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            database.execute(f"{ENDLESS} count(*) from n limit 100000000").fetchall()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_full_disk_leaves_no_file_behind(recording: Recording, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def compress(self, chunk: bytes) -> bytes:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zlib, "compressobj", lambda level: Full())
    with pytest.raises(OSError, match="No space left"):
        save(recording, file.with_name("new.kzr"), 1, 2)
    assert not file.with_name("new.kzr").exists()
    with pytest.raises(FileExistsError):
        save(recording, file, 1, 2)
    assert is_shared_file(file), "an existing file was overwritten"
