"""Which folders contain the jars that a migration needs, and how Maven is called."""

import os
from pathlib import Path

import pytest

from kafka_zk.embedded.errors import JarsNotFound
from kafka_zk.embedded.kafka_jars import jars_from_maven, jars_in

MAVEN = """#!/bin/sh
for last; do :; done
echo x >> "$XDG_CACHE_HOME/calls"
if [ -n "$FAILS" ]; then echo "[INFO] x"; echo "[ERROR] no network"; exit 1; fi
touch "${last#-DoutputDirectory=}/kafka_2.13-3.9.1.jar"
"""


@pytest.mark.parametrize("below", ["", "libs"])
def test_an_installation_or_its_jars(below: str, tmp_path: Path) -> None:
    (tmp_path / below).mkdir(exist_ok=True)
    (tmp_path / below / "kafka_2.12-3.9.2.jar").touch()
    (tmp_path / below / "kafka_2.12-3.9.2-sources.jar").touch()
    found = jars_in(tmp_path)
    assert (found.folder, found.version) == ((tmp_path / below).resolve(), "3.9.2")
    assert found.class_path == f"{tmp_path / below}/*"


def test_another_release_does_not_migrate(tmp_path: Path) -> None:
    with pytest.raises(JarsNotFound, match="has no jar of a Kafka broker"):
        jars_in(tmp_path)
    (tmp_path / "kafka_2.13-4.0.0.jar").touch()
    with pytest.raises(JarsNotFound, match=r"is Apache Kafka 4\.0\.0: a migration needs 3\.9"):
        jars_in(tmp_path)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder, and an ``mvn`` that makes one jar."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mvn").write_text(MAVEN)
    (tmp_path / "bin" / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_maven_downloads_once(cache: Path) -> None:
    found = jars_from_maven()
    assert found == jars_from_maven() and found.folder == cache / "kafka-zk" / "kafka-3.9.1"
    assert (cache / "calls").read_text() == "x\n"


def test_a_failed_download_leaves_nothing_to_use(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAILS", "yes")
    with pytest.raises(JarsNotFound, match=r"saying: \[ERROR\] no network"):
        jars_from_maven()
    monkeypatch.delenv("FAILS")
    assert jars_from_maven().version == "3.9.1"


def test_a_download_that_another_process_has_finished(cache: Path) -> None:
    mvn = cache / "bin" / "mvn"
    other = cache / "kafka-zk" / "kafka-3.9.1"
    mvn.write_text(f'{MAVEN}mkdir -p "{other}"\ntouch "{other}/kafka_2.13-3.9.1.jar"\n')
    assert jars_from_maven().folder == other
    assert list(other.parent.iterdir()) == [other]


def test_without_maven(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cache))
    with pytest.raises(JarsNotFound, match="no mvn is on PATH to download it: give --kafka-dir"):
        jars_from_maven()
