"""The first tool of a Kafka version writes an archive of its classes; the second tool and drivers start from it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.peers import jars, java

pytestmark = pytest.mark.peers

_TOOL = "org.apache.kafka.tools.TopicCommand"


def test_tools_and_drivers_map_the_classes_of_the_first_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "archive", lambda version: tmp_path / f"{version}.jsa")
    first = java.run_tool(jars.ORACLE_VERSION, _TOOL, ["--version"])
    assert [file.name for file in tmp_path.iterdir()] == [f"{jars.ORACLE_VERSION}.jsa"]
    second = java.run_tool(jars.ORACLE_VERSION, _TOOL, ["--version"])
    assert first.text == second.text == f"{jars.ORACLE_VERSION}\n"
    tool = java.tool_command(jars.ORACLE_VERSION, _TOOL, ["--version"])
    driver = java.driver_command(jars.ORACLE_VERSION, "AssignorDriver", flags=["-XX:+UseSerialGC"])
    for command in (tool, driver):
        traced = ["java", "-Xlog:class+load", *command[1:]]
        loaded = subprocess.run(
            traced, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
        )
        assert "source: shared objects file (top)" in loaded.stdout, loaded.stderr
