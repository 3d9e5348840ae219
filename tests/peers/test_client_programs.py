"""The blocks of docs/tutorials/clients.md for Go, Node.js and Kafka's console tools, of the oldest and the newest
version here."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.documented import block
from tests.peers import foreign_programs, java
from tests.peers.jars import NEWEST_VERSION, ORACLE_VERSION
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

_TIMEOUT_S = 90
_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_PRODUCER = {ORACLE_VERSION: "kafka.tools.ConsoleProducer", NEWEST_VERSION: "org.apache.kafka.tools.ConsoleProducer"}


def _tools(folder: Path, version: str) -> str:
    """A PATH with scripts named like Kafka's; ours start the same classes."""
    tools = {"kafka-console-producer.sh": _PRODUCER[version], "kafka-console-consumer.sh": _CONSUMER}
    for name, main_class in tools.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(java.tool_command(version, main_class))} "$@"\n')
        script.chmod(0o755)
    return os.pathsep.join([str(folder), os.environ["PATH"]])


@pytest.mark.parametrize("version", [ORACLE_VERSION, NEWEST_VERSION])
def test_the_java_tools_write_and_read_a_record(target: Target, version: str, tmp_path: Path) -> None:
    text = block("java").elsewhere(target.bootstrap, target.zookeeper).text
    text = text.replace("java-greetings", f"greetings-{uuid.uuid4().hex[:8]}")
    done = subprocess.run(
        ["sh", "-e", "-c", text],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": _tools(tmp_path, version)},
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hello" in done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize(("mark", "module"), [("franz-go", "franz_go"), ("sarama", "sarama")])
def test_a_go_program_writes_and_reads_a_record(target: Target, mark: str, module: str, tmp_path: Path) -> None:
    for name in ("go.mod", "go.sum"):
        shutil.copy(foreign_programs.SOURCES / module / name, tmp_path)
    (tmp_path / "main.go").write_text(_program(mark, target))
    assert "hello" in _run([foreign_programs.go(), "run", "."], tmp_path, {"GOTOOLCHAIN": "local"})


def test_a_node_program_writes_and_reads_a_record(target: Target, tmp_path: Path) -> None:
    (tmp_path / "program.js").write_text(_program("kafkajs", target))
    packages = foreign_programs.node_folder("kafkajs") / "node_modules"
    assert "hello" in _run(["node", "program.js"], tmp_path, {"NODE_PATH": str(packages)})


def _program(mark: str, target: Target) -> str:
    """The program with a topic of its own."""
    text = block(mark).elsewhere(target.bootstrap.partition(",")[0], target.zookeeper).text
    return text.replace('"greetings"', f'"greetings-{uuid.uuid4().hex[:8]}"')


def _run(command: list[str], folder: Path, environ: dict[str, str]) -> list[str]:
    """The output of a program that must succeed."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=os.environ | environ, timeout=_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()
