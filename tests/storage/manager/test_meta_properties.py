"""``meta.properties`` after a power loss or an edit: a start behaves as one of Kafka 3.9.1 does.

tests/peers/logs/test_damaged_files.py compares the two.
"""

from pathlib import Path
from typing import Any

import pytest

from kafka_zk.storage.files.errors import InconsistentLogDir
from kafka_zk.storage.files.findings import Finding
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.manager.log_manager import LogManager
from kafka_zk.storage.manager.meta_properties import MetaProperties, check_meta_properties, read_meta_properties
from tests.storage.helpers import TP, Clock, append, batch, present, read_offsets

OURS = MetaProperties(3, "cluster")


def start(*paths: Path, **identity: Any) -> LogManager:
    known: dict[str, Any] = {"broker_id": 3, "cluster_id": "cluster"} | identity
    logs = LogManager(paths, LogConfig(), clock_ms=Clock(), **known)
    logs.start({})
    return logs


def stopped(path: Path) -> Path:
    """A log directory with ten records that was closed cleanly; returns the path of its ``meta.properties``."""
    logs = start(path)
    for _ in range(10):
        append(logs.get_or_create(TP), batch())
    logs.shutdown()
    return path / "meta.properties"


@pytest.mark.parametrize(
    "content",
    [None, b"", bytes(58), b"\xff\xfe\x07", b"#\n", b"version=0\n" + bytes(48), b"version=0\nbroker.id=3\n"],
    ids=["missing", "empty", "NULs", "garbage", "comment", "NUL tail", "no cluster"],
)
def test_a_file_that_names_no_other_owner_is_completed(tmp_path: Path, content: bytes | None) -> None:
    """The broker completes the file and serves the logs."""
    meta = stopped(tmp_path)
    meta.unlink()
    if content is not None:
        meta.write_bytes(content)
    logs = start(tmp_path)
    assert read_offsets(present(logs.get(TP))) == list(range(10))
    logs.shutdown()
    assert read_meta_properties(str(tmp_path)) == OURS


def test_a_missing_version_is_version_0(tmp_path: Path) -> None:
    """The file is valid, so it is not changed."""
    meta = stopped(tmp_path)
    meta.write_bytes(b"broker.id=3\ncluster.id=cluster\n")
    start(tmp_path).shutdown()
    assert meta.read_bytes() == b"broker.id=3\ncluster.id=cluster\n"


@pytest.mark.parametrize(
    "content",
    [b"broker.id=4\n", b"cluster.id=clu", b"version=0\ncluster.id=other\nbroker.id=3\n", b"version=1\nnode.id=3\n"],
    ids=["broker", "torn cluster id", "cluster", "KRaft"],
)
def test_a_file_that_names_another_owner_stops_the_broker(tmp_path: Path, content: bytes) -> None:
    """The broker stops even if another directory is valid, and does not change the file."""
    meta = stopped(tmp_path / "1")
    meta.write_bytes(content)
    for paths in ([tmp_path / "1"], [tmp_path / "2", tmp_path / "1"]):
        with pytest.raises(InconsistentLogDir):
            start(*paths)
    assert meta.read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [b"version=0\ncluster.id=cluster\nbroker.id=3\0\0\n", b"version=\0\n", b"version=7\n", b"version=0x\nbroker.id=3"],
)
def test_a_value_that_cannot_be_read_costs_its_own_directory(tmp_path: Path, content: bytes) -> None:
    """Other directories are used. Without others, the start fails, and the error names the file to correct."""
    meta = stopped(tmp_path / "1")
    meta.write_bytes(content)
    logs = start(tmp_path / "2", tmp_path / "1")
    assert logs.live_directories == [tmp_path / "2"] and logs.get(TP) is None
    logs.shutdown()
    with pytest.raises(OSError, match=r"1/meta.properties: .*; correct the file, or remove it"):
        start(tmp_path / "1")
    assert meta.read_bytes() == content


def test_a_file_that_names_nobody_is_reported(tmp_path: Path) -> None:
    """The log reports that the directory was accepted without proof of its owner. A missing file means a new
    directory."""
    found: list[Finding] = []
    check_meta_properties(str(tmp_path), 3, "cluster", found.append)
    check_meta_properties(str(tmp_path), 3, "cluster", found.append)
    assert not found
    (tmp_path / "meta.properties").write_bytes(bytes(58))
    check_meta_properties(str(tmp_path), 3, "cluster", found.append)
    assert [(finding.path, finding.problem) for finding in found] == [
        (f"{tmp_path}/meta.properties", "names no broker and no cluster")
    ]
