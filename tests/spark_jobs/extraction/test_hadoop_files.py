"""Local folders as ``HadoopFiles`` renames them, without Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from kafka_zk.spark_jobs.extraction.hadoop_files import HadoopFiles


class Java:
    """Java must not be called: between Hadoop's check of the target and its rename, another run may publish the
    range.
    """

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"Java was asked for {name}")


@pytest.fixture
def files() -> HadoopFiles:
    context = SimpleNamespace(_gateway=Java())
    return HadoopFiles(
        SimpleNamespace(_jvm=Java(), sparkContext=context, _jsc=SimpleNamespace(hadoopConfiguration=dict))
    )


def folder(path: Path, content: str) -> str:
    path.mkdir()
    (path / "part").write_text(content)
    return path.as_uri()


def test_a_folder_is_renamed_once(files: HadoopFiles, tmp_path: Path) -> None:
    source, target = folder(tmp_path / "a b", "mine"), (tmp_path / "c d").as_uri().replace("%20", " ")
    assert files.rename_folder(source.replace("%20", " "), target)
    assert not files.rename_folder(source.replace("%20", " "), target), "it is gone"
    assert [path.read_text() for path in tmp_path.rglob("part")] == ["mine"]


def test_a_folder_is_not_renamed_into_the_one_that_is_there(files: HadoopFiles, tmp_path: Path) -> None:
    source, target = folder(tmp_path / "a", "mine"), folder(tmp_path / "b", "of another run")
    assert not files.rename_folder(source, target)
    assert (tmp_path / "b" / "part").read_text() == "of another run" and (tmp_path / "a" / "part").exists()
    assert not list((tmp_path / "b").glob("a"))


def test_other_failures_are_told(files: HadoopFiles, tmp_path: Path) -> None:
    source = folder(tmp_path / "a", "mine")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        files.rename_folder(source, (tmp_path / "file" / "b").as_uri())


def test_an_object_is_replaced_where_it_is() -> None:
    """Google's connector has no ``FileContext``, unless the session configures one."""
    java = MagicMock()
    path = java.org.apache.hadoop.fs.Path.return_value
    store = path.getFileSystem.return_value
    session = SimpleNamespace(_jvm=java, sparkContext=SimpleNamespace(_gateway=java), _jsc=MagicMock())
    HadoopFiles(session).replace("gs://bucket/lake/_common_metadata", b"data")
    store.create.assert_called_once_with(path, True)
    java.org.apache.hadoop.fs.Path.assert_called_once_with("gs://bucket/lake/_common_metadata")
    java.org.apache.hadoop.fs.FileContext.getFileContext.assert_not_called()
