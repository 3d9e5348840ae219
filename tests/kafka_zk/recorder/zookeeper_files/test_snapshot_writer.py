"""A written snapshot is read back unchanged, also by ZooKeeper itself."""

from pathlib import Path

import pytest

from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.recorder.zookeeper_files.snapshot import Znode, newest_snapshot
from kafka_zk.recorder.zookeeper_files.snapshot_writer import write_snapshot
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking

ZNODES = {
    "/a": Znode(b"data", 3, 4, 5, 1_000, 0),
    "/a/b": Znode(None, 0, 6, 6, 2_000, 0x1234),
    "/a-sibling": Znode(b"", 0, 6, 6, 2_000, 0),
    "/changes/change_0000000041": Znode("ä".encode(), 0, 7, 7, 3_000, 0),
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path, 0x2F, ZNODES)
    assert path.name == "snapshot.2f" and path.parent.stat().st_mode & 0o777 == 0o700
    found = newest_snapshot(tmp_path)
    assert found is not None and found.zxid == 0x2F
    assert found.znodes == {
        **{path: znode._replace(session=0) for path, znode in ZNODES.items()},
        "/changes": Znode(b"", 0, 0, 0, 0, 0),
    }
    with pytest.raises(FileExistsError):
        write_snapshot(tmp_path, 0x2F, ZNODES)


@pytest.mark.integration
def test_zookeeper_starts_from_it(tmp_path: Path) -> None:
    write_snapshot(tmp_path / "data", 0x2F, ZNODES)
    with EmbeddedZooKeeper(tmp_path, force_sync=False) as server, KazooBlockingClient(server.connect_string) as client:
        data, stat = run_blocking(client.get("/a"))
        assert (data, stat.version, stat.czxid, stat.mzxid, stat.mtime_ms, stat.ephemeral_owner) == (
            b"data", 3, 4, 5, 1_000, 0,
        )  # fmt: skip
        assert run_blocking(client.get("/a/b"))[0] is None
        assert run_blocking(client.is_open("/a"))
        created = run_blocking(client.create("/changes/change_", b"", sequential=True))
        assert created == "/changes/change_0000000042"
