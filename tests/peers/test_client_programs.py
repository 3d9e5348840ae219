"""The Java tools' block of docs/clients.md, with Kafka's own console tools, the oldest and the newest here."""

from __future__ import annotations

import os
import shlex
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.documented import block
from tests.peers import java
from tests.peers.jars import NEWEST_VERSION, ORACLE_VERSION
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

_TIMEOUT_S = 90
_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_PRODUCER = {ORACLE_VERSION: "kafka.tools.ConsoleProducer", NEWEST_VERSION: "org.apache.kafka.tools.ConsoleProducer"}


def _tools(folder: Path, version: str) -> str:
    """A PATH with scripts of the names that Kafka's have; ours start the same classes."""
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
