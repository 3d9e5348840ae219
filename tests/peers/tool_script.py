"""Runs commands of Kafka 3.9.1's tools against a cluster, and makes their output comparable between two clusters."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.peers import targets
from tests.peers.clients.line_process import LineProcess
from tests.peers.processes import ProcessFailed
from tests.peers.targets import Target

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"

_TOPIC_ID = re.compile(r"(TopicId: |topicId=)[\w-]{22}")
_CLOCK = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]")
_STACK = re.compile(r"^\s+at .*$|^\s+\.\.\. \d+ more$|^\s*\((?:org|kafka)\..*\)$", re.MULTILINE)

_SETTLE_TIMEOUT_S = 10


class Step(NamedTuple):
    """One command; `{folder}` in an argument is the folder of the test's files.

    Brokers apply a change of their configuration shortly after its response. Therefore, the command is repeated until
    its output contains `until` and does not contain `gone`.
    """

    name: str
    main_class: str
    arguments: Sequence[str]
    until: str = ""
    gone: str = ""


class Said(NamedTuple):
    """The output of a tool, without the parts that differ between any two clusters."""

    code: int
    lines: list[str]


class ToolRunner:
    """One JVM that runs Kafka's tools (tests/peers/java/ToolRunner.java)."""

    def __init__(self, version: str) -> None:
        self._process = LineProcess(version, "ToolRunner")

    def run(self, target: Target, step: Step) -> Said:
        """Run one command. Raises: ClientFailed if the JVM does not answer."""
        deadline = time.monotonic() + _SETTLE_TIMEOUT_S
        while True:
            said = self._run_once(target, step)
            text = "\n".join(said.lines)
            settled = step.until in text and not (step.gone and step.gone in text)
            if settled or time.monotonic() > deadline:
                return said

    def _run_once(self, target: Target, step: Step) -> Said:
        arguments = ["--bootstrap-server", target.bootstrap, *step.arguments]
        answer = json.loads(self._process.ask([json.dumps({"main": step.main_class, "arguments": arguments})]))
        lines = comparable(answer["stdout"] + answer["stderr"], target)
        of_all_topics = step.main_class == CONFIGS and step.arguments[-1] == "topics"
        return Said(answer["code"], sorted(lines) if of_all_topics else lines)

    def close(self) -> None:
        """End the JVM."""
        self._process.close()


def said_to_each(
    version: str,
    zookeeper: str,
    folder: Path,
    chroot: str,
    perform: Callable[[ToolRunner, Target, Path], dict[str, Said]],
    overrides: Mapping[str, str] | None = None,
    broker_count: int = 1,
    racks: Sequence[str] = (),
    *,
    at_once: bool = False,
) -> dict[str, dict[str, Said]]:
    """The output of a version's tools, by target and step, with one JVM for all commands to a cluster.

    ``at_once``: run the commands to both clusters at the same time, because they wait most of it.
    """

    def said_to(name: str) -> dict[str, Said]:
        runner = ToolRunner(version)
        try:
            target = targets.start(
                name,
                zookeeper,
                folder / name,
                broker_count=broker_count,
                overrides=overrides,
                racks=racks,
                chroot=f"{chroot}-{name}",
            )
        except ProcessFailed as failure:
            pytest.fail(str(failure), pytrace=False)
        try:
            said = perform(runner, target, folder)
        finally:
            complaints = target.stop()
            runner.close()
        assert not complaints, "\n".join(complaints)
        return said

    with ThreadPoolExecutor(len(targets.NAMES) if at_once else 1) as pool:
        return dict(zip(targets.NAMES, pool.map(said_to, targets.NAMES), strict=True))


def comparable(text: str, target: Target) -> list[str]:
    """The lines without addresses, folders, topic ids, times and Java stack frames."""
    for port in target.ports:
        text = text.replace(f"127.0.0.1:{port}", "BROKER").replace(f"port: {port}", "PORT")
    for log_dir in target.log_dirs:
        text = text.replace(str(log_dir), "LOG_DIR")
    text = text.replace(target.zookeeper, "ZOOKEEPER")
    text = _STACK.sub("", _CLOCK.sub("[]", _TOPIC_ID.sub(r"\1ID", text)))
    return [_sorted(line.rstrip()) for line in text.splitlines() if line.strip()]


def _sorted(line: str) -> str:
    """kafka-log-dirs prints JSON whose partitions are in the order of a hash table."""
    if not line.startswith("{"):
        return line
    shown = json.loads(line)
    for broker in shown.get("brokers", ()):
        for log_dir in broker["logDirs"]:
            log_dir["partitions"].sort(key=lambda partition: partition["partition"])
    return json.dumps(shown)
