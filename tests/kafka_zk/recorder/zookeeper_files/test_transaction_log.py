"""The log of a ZooKeeper in the form of its files: with reserved space, torn, rolled, purged."""

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


def record(zxid: int, kind: int, body: bytes, *, request_number: int = 0) -> bytes:
    whole = struct.pack(">qiqqi", SESSION, request_number, zxid, 1_000 + zxid, kind) + body
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
        (-11, struct.pack(">i", 2) + text("/a") + text("/b"), SessionClosed(("/a", "/b"), expired=True)),
        (-11, b"", SessionClosed(None, expired=True)),
    ],
)
def test_each_type_of_transaction(kind: int, body: bytes, expected: Operation, digest: bytes, folder: Path) -> None:
    """A server since 3.6 adds the digest of its tree to each."""
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
    nested = multi((2, text("/c")))
    for _ in range(3_000):
        nested = multi((14, nested))
    (folder / "log.1").write_bytes(HEADER + record(1, 14, nested) + record(2, 2, text("/c")))
    follower = TransactionLogFollower(folder.parent)
    assert (follower.read(), len(follower.problems)) == ([], 1), "a multi in a multi was accepted"


def test_what_is_reserved_or_torn_is_not_read(folder: Path) -> None:
    """A record counts once it is complete; a torn record ends its file, and the next file continues."""
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
def test_a_session_expired_unless_its_client_asked_to_close_it(folder: Path) -> None:
    (folder / "log.1").write_bytes(HEADER + record(1, -11, b"") + record(2, -11, b"", request_number=7))
    assert [each.operations for each in transactions(folder.parent)] == [
        (SessionClosed(None, expired=True),), (SessionClosed(None, expired=False),)
    ]  # fmt: skip


def test_damaged_and_foreign_files_get_a_sentence_and_torn_ends_none(folder: Path) -> None:
    torn = record(2, 2, text("/b"))[:-7]
    (folder / "log.1").write_bytes(HEADER + record(1, 2, text("/a")) + torn + bytes(4_096))
    damaged = b"?" + record(4, 2, text("/d"))[1:]
    (folder / "log.3").write_bytes(HEADER + record(3, 2, text("/c")) + damaged + record(5, 2, text("/e")))
    (folder / "log.6").write_bytes(b"[2026-11-30 00:21:48,029] INFO a log of another kind")
    (folder / "log.old").write_bytes(b"")
    (folder / "log.7").write_bytes(HEADER + record(7, 2, text("/e")))
    follower = TransactionLogFollower(folder.parent)
    assert [each.zxid for each in follower.read()] == [1, 3, 7]
    assert follower.problems == [
        "log.old is not named like a file of a transaction log",
        "log.3 is damaged at byte 67: the transactions after it in this file are missing",
        "log.6 is not a file of a transaction log of ZooKeeper 3.4 to 3.9",
    ]


def test_a_length_that_cannot_be_is_damage_and_is_not_read(folder: Path) -> None:
    (folder / "log.1").write_bytes(HEADER + struct.pack(">qi", 1, 2**31 - 1) + b"x" * 100)
    follower = TransactionLogFollower(folder.parent)
    assert (follower.read(), len(follower.problems)) == ([], 1)


def test_a_body_that_does_not_fit_its_type_is_damage(folder: Path) -> None:
    (folder / "log.1").write_bytes(HEADER + record(1, 5, b"\0\0\0\x09a") + record(2, 2, text("/a")))
    follower = TransactionLogFollower(folder.parent)
    assert (follower.read(), len(follower.problems)) == ([], 1)


def test_a_read_ends_after_so_many_bytes_and_tells_that_more_is_there(folder: Path) -> None:
    (folder / "log.1").write_bytes(HEADER + b"".join(record(zxid, 2, text("/a" * 50)) for zxid in range(1, 4)))
    follower = TransactionLogFollower(folder.parent)
    assert [len(follower.read(most_bytes=200)), follower.behind] == [2, True]
    assert [len(follower.read(most_bytes=200)), follower.behind] == [1, False]
