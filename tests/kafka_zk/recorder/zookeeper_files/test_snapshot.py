"""Snapshots of a ZooKeeper in the form of its files: complete ones, torn ones, and several kinds of znodes."""

import gzip
import struct
import tracemalloc
from pathlib import Path

import pytest

from kafka_zk.recorder.zookeeper_files import snapshot as module
from kafka_zk.recorder.zookeeper_files.snapshot import Znode, oldest_snapshot
from tests.kafka_zk.recorder.zookeeper_files.test_transaction_log import ACL, text

SESSION = 0x1000


def znode(path: str, data: bytes | None = b"data", owner: int = 0, version: int = 0) -> bytes:
    content = struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    stat = struct.pack(">qqqqiiiqq", 3, 4, 1_000, 2_000, version, 5, 6, owner, 7)
    return text(path) + content + struct.pack(">q", 1) + stat


def snapshot(*znodes: bytes) -> bytes:
    sessions = struct.pack(">i", 2) + struct.pack(">qiqi", SESSION, 6_000, SESSION + 1, 6_000)
    acls = struct.pack(">iq", 1, 1) + ACL
    tree = b"".join((znode("", b""), znode("/zookeeper"), znode("/zookeeper/quota"), *znodes, text("/")))
    checksum = struct.pack(">q", 1) + text("/")
    return b"ZKSN" + struct.pack(">iq", 2, -1) + sessions + acls + tree + checksum


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "version-2").mkdir()
    return tmp_path / "version-2"


def test_znodes_are_as_they_were(folder: Path) -> None:
    znodes = (
        znode("/a", None, version=8),
        znode("/a/ephemeral", b"", SESSION),
        znode("/container", owner=-(1 << 63)),
        znode("/ttl", owner=(0xFF << 56) - (1 << 64) + 5),
    )
    (folder / "snapshot.1f").write_bytes(snapshot(*znodes))
    assert oldest_snapshot(folder.parent, 0x20) is None
    found = oldest_snapshot(folder.parent, 0x1F)
    assert found is not None and found.zxid == 0x1F
    assert found.znodes == {
        "/a": Znode(None, 8, 3, 4, 2_000, 0),
        "/a/ephemeral": Znode(b"", 0, 3, 4, 2_000, SESSION),
        "/container": Znode(b"data", 0, 3, 4, 2_000, 0),
        "/ttl": Znode(b"data", 0, 3, 4, 2_000, 0),
    }


def test_one_that_is_not_whole_is_passed_over(folder: Path) -> None:
    whole = snapshot(znode("/a"))
    (folder / "snapshot.a").write_bytes(whole)
    (folder / "snapshot.tmp").write_bytes(whole)
    for size in range(len(whole) - 12 - len(text("/"))):
        (folder / "snapshot.5").write_bytes(whole[:size])
        found = oldest_snapshot(folder.parent, 1)
        assert found is not None and found.zxid == 10, size


def test_a_compressed_snapshot_is_read_and_a_torn_one_is_not(folder: Path) -> None:
    (folder / "snapshot.6.gz").write_bytes(gzip.compress(snapshot(znode("/old")))[:-20])
    (folder / "snapshot.7.gz").write_bytes(gzip.compress(snapshot(znode("/a"))))
    found = oldest_snapshot(folder.parent, 0)
    assert found is not None and (found.zxid, list(found.znodes)) == (7, ["/a"])


@pytest.mark.parametrize("field", [bytes(8), struct.pack(">i", 2**31 - 1), text("no path"), text("")])
def test_a_bomb_is_not_unpacked(folder: Path, field: bytes) -> None:
    """The read ends at the first impossible field: 64 MB of zeros are 64 kB in the file."""
    begin = snapshot(znode("/a"))[: -len(text("/")) * 2 - 8]
    (folder / "snapshot.6.gz").write_bytes(gzip.compress(begin + field + bytes(64_000_000), 1))
    tracemalloc.start()
    assert oldest_snapshot(folder.parent, 0) is None
    assert tracemalloc.get_traced_memory()[1] < 8_000_000
    tracemalloc.stop()


def test_more_than_a_limit_is_not_unpacked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = snapshot(*(znode(f"/{number}") for number in range(100)))
    (folder / "snapshot.6.gz").write_bytes(gzip.compress(content))
    monkeypatch.setattr(module, "MOST_UNPACKED_BYTES", len(content) - 20)
    assert oldest_snapshot(folder.parent, 0) is None
