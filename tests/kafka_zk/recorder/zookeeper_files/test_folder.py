"""The names of a server's files, and their folder."""

from pathlib import Path

import pytest

from kafka_zk.recorder.zookeeper_files.folder import files_folder, zxid_of


@pytest.mark.parametrize(
    ("name", "zxid"),
    [("log.1f", 0x1F), ("snapshot.0", 0), ("snapshot.2a.gz", 0x2A), ("log.", -1), ("log.gc", -1), ("log.1.bak", -1)],
)
def test_a_name_tells_the_zxid(name: str, zxid: int) -> None:
    assert zxid_of(Path(name)) == zxid


def test_files_are_in_version_2_or_in_the_folder_itself(tmp_path: Path) -> None:
    assert files_folder(tmp_path) == tmp_path / "version-2"
    (tmp_path / "log.1").touch()
    assert files_folder(tmp_path) == tmp_path
    (tmp_path / "version-2").mkdir()
    assert files_folder(tmp_path) == tmp_path / "version-2"
