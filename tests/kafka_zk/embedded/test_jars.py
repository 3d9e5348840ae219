"""The embedded ZooKeeper uses the jars of the right package."""

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

from kafka_zk.embedded import jars
from kafka_zk.embedded.errors import JarsNotFound

NECESSARY = ("zookeeper-3.9.5.jar", "zookeeper-jute-3.9.5.jar")


def package(folder: Path, name: str, files: tuple[str, ...]) -> Path:
    """An importable package with these jars; returns their folder."""
    there = folder / name / "jars"
    there.mkdir(parents=True)
    (folder / name / "__init__.py").touch()
    for file in files:
        (there / file).touch()
    importlib.invalidate_caches()
    return there


@pytest.fixture
def only_packages_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path. Packages that are not in it count as not installed."""
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("kafka_zk_zookeeper", "pyspark"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: find(name) if (tmp_path / name).exists() else None)
    return tmp_path


def test_the_jars_made_for_it_come_before_those_of_pyspark(only_packages_of: Path) -> None:
    package(only_packages_of, "pyspark", NECESSARY)
    own = package(only_packages_of, "kafka_zk_zookeeper", ("a.jar", "b.jar"))
    assert jars.find_zookeeper_jars() == [own / "a.jar", own / "b.jar"]


def test_the_jars_of_pyspark_will_do(only_packages_of: Path) -> None:
    files = (*(f"{artifact}-1.0.jar" for artifact in jars.ARTIFACTS), "netty-codec-4.jar", "spark-core-4.1.jar")
    folder = package(only_packages_of, "pyspark", files)
    assert {path.name for path in jars.find_zookeeper_jars()} == set(files) - {"spark-core-4.1.jar"}
    (folder / "log4j-api-1.0.jar").unlink()
    assert jars.find_zookeeper_jars() == [folder / "*"], "packaged differently: all of them"


def test_without_jars_a_sentence_says_what_to_install(only_packages_of: Path) -> None:
    with pytest.raises(JarsNotFound, match=r"pip install 'kafka-zk\[embedded\]'"):
        jars.find_zookeeper_jars()
    package(only_packages_of, "pyspark", ("hadoop.jar",))
    with pytest.raises(JarsNotFound, match="has no zookeeper and no zookeeper-jute"):
        jars.find_zookeeper_jars()
    package(only_packages_of, "kafka_zk_zookeeper", ())
    with pytest.raises(JarsNotFound, match="install kafka-zk-zookeeper again"):
        jars.find_zookeeper_jars()
