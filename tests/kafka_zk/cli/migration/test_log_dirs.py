"""What the folders of ``--log-dirs`` say: those of a real controller, and folders that cannot be read."""

import shutil
from pathlib import Path

from kafka_zk.cli.migration.log_dirs import read_log_dir
from kafka_zk.migration.facts import MigrationState, Unknown

RECORDED = Path(__file__).parents[2] / "migration" / "metadata" / "recorded"
LOG = "__cluster_metadata-0"


def test_the_log_of_a_controller_has_its_last_state(tmp_path: Path) -> None:
    shutil.copytree(RECORDED / LOG, tmp_path / LOG)
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=3000\n")
    found = read_log_dir(tmp_path)
    assert found.meta == {"version": "1", "node.id": "3000"}
    assert found.recorded_state is MigrationState.MIGRATION


def test_a_folder_without_a_log(tmp_path: Path) -> None:
    assert read_log_dir(tmp_path)[1:] == (None, None)


def test_a_log_that_is_damaged_is_unknown(tmp_path: Path) -> None:
    (tmp_path / LOG).mkdir()
    found = read_log_dir(tmp_path).recorded_state
    assert isinstance(found, Unknown) and "contains no metadata log" in found.reason and found.remedy


def test_a_file_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").mkdir()
    assert isinstance(read_log_dir(tmp_path).meta, Unknown)
