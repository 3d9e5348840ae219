"""The log of a ZooKeeper, as files of it are: with room reserved, torn, rolled, purged."""

import struct
import zlib
from pathlib import Path

import pytest

from kafka_zk.recorder.zookeeper_files.transaction_log import (
    Created,
    DataSet,
    Deleted,
    Operation,
    SessionClosed,
    SessionCreated,
    TransactionLogFollower,
    transactions,
)

SESSION = 0x1000
HEADER = b"ZKLG" + struct.pack(">iq", 2, 0)
ACL = struct.pack(">ii", 1, 31) + struct.pack(">i5si6s", 5, b"world", 6, b"anyone")
DIGEST = struct.pack(">iq", 2, 12345)


def text(value: str) -> bytes:
    return struct.pack(">i", len(value.encode())) + value.encode()


def created(path: str, *, ephemeral: bool = False) -> bytes:
    return text(path) + text("data") + ACL + bytes([ephemeral]) + struct.pack(">i", 1)


def record(zxid: int, kind: int, body: bytes) -> bytes:
    whole = struct.pack(">qiqqi", SESSION, 0, zxid, 1_000 + zxid, kind) + body
    return struct.pack(">qi", zlib.adler32(whole), len(whole)) + whole + b"B"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "version-2").mkdir()
    return tmp_path / "version-2"


def one(folder: Path, kind: int, body: bytes) -> tuple[Operation, ...]:
    (folder / "log.1").write_bytes(HEADER + record(1, kind, body))
    [found] = transactions(folder.parent)
    return found.operations


@pytest.mark.parametrize("digest", [b"", DIGEST], ids=["3.4", "3.6"])
@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        (1, created("/a", ephemeral=True), Created("/a", b"data", ephemeral=True)),
        (15, created("/a"), Created("/a", b"data", ephemeral=False)),
        (19, text("/a") + text("data") + ACL + struct.pack(">i", 1), Created("/a", b"data", ephemeral=False)),
        (21, text("/a") + text("data") + ACL + struct.pack(">iq", 1, 99), Created("/a", b"data", ephemeral=False)),
        (2, text("/a"), Deleted("/a")),
        (20, text("/a"), Deleted("/a")),
        (5, text("/a") + text("b") + struct.pack(">i", 7), DataSet("/a", b"b", 7)),
        (16, text("/zookeeper/config") + text("b") + struct.pack(">i", 7), DataSet("/zookeeper/config", b"b", 7)),
        (-10, struct.pack(">i", 6_000), SessionCreated(6_000)),
        (-11, struct.pack(">i", 2) + text("/a") + text("/b"), SessionClosed(("/a", "/b"))),
        (-11, b"", SessionClosed(None)),
    ],
)
def test_each_type_of_transaction(kind: int, body: bytes, expected: Operation, digest: bytes, folder: Path) -> None:
    """A server since 3.6 puts the digest of its tree behind each."""
    assert one(folder, kind, body + digest) == (expected,)


def test_acls_and_refusals_change_no_znode(folder: Path) -> None:
    assert one(folder, 7, text("/a") + ACL + struct.pack(">i", 1)) == ()
    assert one(folder, -1, struct.pack(">i", -101)) == ()


def test_a_multi_is_done_as_a_whole_or_not_at_all(folder: Path) -> None:
    def multi(*parts: tuple[int, bytes]) -> bytes:
        body = struct.pack(">i", len(parts))
        return body + b"".join(struct.pack(">ii", kind, len(part)) + part for kind, part in parts)

    done = multi((1, created("/a")), (13, text("/b") + struct.pack(">i", 0)), (2, text("/c")))
    assert one(folder, 14, done) == (Created("/a", b"data", ephemeral=False), Deleted("/c"))
    refused = struct.pack(">i", -110)
    assert one(folder, 14, multi((-1, refused), (-1, refused))) == ()


def test_what_is_reserved_or_torn_is_not_read(folder: Path) -> None:
    """A record is there once it is there whole; one that was torn ends its file, and the next file goes on."""
    file = folder / "log.1"
    first, second = record(1, 2, text("/a")), record(2, 2, text("/b"))
    follower = TransactionLogFollower(folder.parent)
    for there in range(len(second)):
        file.write_bytes(HEADER + first + second[:there] + bytes(100_000))
        assert [each.zxid for each in follower.read()] == ([] if there else [1])
    (folder / "log.3").write_bytes(HEADER + record(3, 2, text("/c")))
    assert [each.zxid for each in follower.read()] == [3]


def test_a_damaged_record_is_not_taken_for_a_transaction(folder: Path) -> None:
    damaged = bytearray(record(2, 2, text("/b")))
    damaged[-2] ^= 1
    (folder / "log.1").write_bytes(HEADER + record(1, 2, text("/a")) + damaged)
    assert [each.zxid for each in transactions(folder.parent)] == [1]


def test_it_goes_on_in_the_next_file_and_repeats_nothing_when_old_ones_are_purged(folder: Path) -> None:
    follower = TransactionLogFollower(folder.parent)
    assert follower.read() == []
    for zxid in (1, 5, 9):
        (folder / f"log.{zxid:x}").write_bytes(HEADER + record(zxid, 2, text("/a")))
    assert [each.zxid for each in follower.read(limit=2)] == [1, 5]
    (folder / "log.1").unlink()
    (folder / "log.5").unlink()
    (folder / "log.a").write_bytes(HEADER + record(10, 2, text("/a")))
    assert [each.zxid for each in follower.read()] == [9, 10]
    assert (follower.read(), follower.missing_until) == ([], 0)


def test_it_says_what_only_a_snapshot_has(folder: Path) -> None:
    (folder / "snapshot.4").touch()
    (folder / "log.5").write_bytes(HEADER + record(5, 2, text("/a")))
    follower = TransactionLogFollower(folder.parent)
    assert [each.zxid for each in follower.read()] == [5]
    assert follower.missing_until == 4


def test_a_record_larger_than_a_piece_is_read(folder: Path) -> None:
    path = "/" + "x" * 3_000_000
    (folder / "log.1").write_bytes(HEADER + record(1, 2, text("/a")) + record(2, 2, text(path)) + bytes(1_000))
    assert [each.operations for each in transactions(folder.parent)] == [(Deleted("/a"),), (Deleted(path),)]
