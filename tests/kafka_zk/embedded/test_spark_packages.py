"""Why Spark cannot run on this machine: one sentence for each reason."""

import importlib.util
from pathlib import Path

import pytest

from kafka_zk.embedded import spark_packages as spark_extra


def test_what_is_not_installed_is_told_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_extra, "PACKAGES", ("click", "no_such_package"))
    assert spark_extra.absent_packages() == "Spark needs no_such_package: pip install 'kafka-zk[spark]'"
    assert spark_extra.obstacle() == spark_extra.absent_packages()


def test_a_java_that_is_too_old_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nprintf 'openjdk version \"11.0.2\"\\n' >&2\n")
    java.chmod(0o755)
    monkeypatch.setattr(spark_extra, "PACKAGES", ())
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    told = spark_extra.obstacle({"JAVA_HOME": str(tmp_path), "PATH": ""})
    assert told is not None and told.startswith("no Java 17 or later") and "version 11 is too old" in told
