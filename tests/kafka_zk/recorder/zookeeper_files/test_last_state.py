"""The end of a transaction log: a snapshot, and the transactions after it."""

import struct
import zlib
from pathlib import Path

from kafka_zk.recorder.zookeeper_files.last_state import read_last_state
from kafka_zk.recorder.zookeeper_files.snapshot import Znode
from kafka_zk.recorder.zookeeper_files.snapshot_writer import write_snapshot
from tests.kafka_zk.recorder.zookeeper_files.test_transaction_log import HEADER, SESSION, created, text

OTHER = SESSION + 1
CREATE, DELETE, SET_DATA, CLOSE_SESSION = 1, 2, 5, -11


def record(zxid: int, kind: int, body: bytes, session: int = SESSION) -> bytes:
    whole = struct.pack(">qiqqi", session, 0, zxid, 1_000 + zxid, kind) + body
    return struct.pack(">qi", zlib.adler32(whole), len(whole)) + whole + b"B"


def test_later_transactions_are_applied(tmp_path: Path) -> None:
    old = Znode(b"old", 1, 1, 1, 0, 0)
    write_snapshot(tmp_path, 1, {"/gone": old})
    write_snapshot(tmp_path, 5, {"/kept": old, "/set": old, "/deleted": old})
    (tmp_path / "version-2" / "log.4").write_bytes(HEADER + b"".join([
        record(4, CREATE, created("/kept")),  # before the snapshot
        record(6, SET_DATA, text("/set") + text("new") + struct.pack(">i", 2)),
        record(7, DELETE, text("/deleted")),
        record(8, CREATE, created("/mine", ephemeral=True)),
        record(9, CREATE, created("/others", ephemeral=True), OTHER),
        record(10, CLOSE_SESSION, b""),
        record(11, DELETE, text("/deleted")),
    ]))  # fmt: skip
    found = read_last_state(tmp_path)
    assert found is not None and found.zxid == 11
    assert {path: (znode.data, znode.version, znode.session) for path, znode in found.znodes.items()} == {
        "/kept": (b"old", 1, 0), "/set": (b"new", 2, 0), "/others": (b"data", 0, OTHER),
    }  # fmt: skip


def test_a_log_in_another_folder(tmp_path: Path) -> None:
    write_snapshot(tmp_path, 5, {})
    (tmp_path / "log" / "version-2").mkdir(parents=True)
    (tmp_path / "log" / "version-2" / "log.6").write_bytes(HEADER + record(6, CREATE, created("/a")))
    found = read_last_state(tmp_path, tmp_path / "log")
    assert found is not None and list(found.znodes) == ["/a"]


def damage(tmp_path: Path, snapshot: int, **logs: bytes) -> tuple[str, ...]:
    write_snapshot(tmp_path, snapshot, {})
    for name, data in logs.items():
        (tmp_path / "version-2" / name.replace("_", ".")).write_bytes(data)
    found = read_last_state(tmp_path)
    assert found is not None and found.has_log is bool(logs)
    return found.damage


def whole(*zxids: int) -> bytes:
    return HEADER + b"".join(record(zxid, DELETE, text("/a")) for zxid in zxids)


def test_a_whole_log(tmp_path: Path) -> None:
    assert damage(tmp_path, 5, log_4=whole(4, 5, 6), log_7=whole(7)) == ()


def test_no_log(tmp_path: Path) -> None:
    assert damage(tmp_path, 5) == ()


def test_damage_after_the_snapshot_hides_transactions(tmp_path: Path) -> None:
    damaged = whole(4, 5) + b"?" + whole(6)[len(HEADER) + 1 :] + whole(7)[len(HEADER) :]
    (sentence,) = damage(tmp_path, 5, log_4=damaged, log_8=whole(8))
    assert "log.4 is damaged at byte" in sentence


def test_damage_before_the_snapshot_does_not_matter(tmp_path: Path) -> None:
    damaged = whole(1) + b"?" + whole(2)[len(HEADER) + 1 :] + whole(3)[len(HEADER) :]
    assert damage(tmp_path, 5, log_1=damaged, log_6=whole(6)) == ()


def test_a_gap_after_the_snapshot(tmp_path: Path) -> None:
    assert damage(tmp_path, 5, log_8=whole(8)) == ("the transactions from 0x6 to 0x7 are in no file",)


def test_a_log_that_begins_with_an_epoch_may_be_whole(tmp_path: Path) -> None:
    assert damage(tmp_path, 0x1_0000_0005, log_300000001=whole(0x3_0000_0001)) == ()


def test_a_folder_without_a_snapshot(tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()
    (tmp_path / "version-2" / "snapshot.1").write_bytes(b"ZKSN" + struct.pack(">i", 2))
    assert read_last_state(tmp_path) is None
