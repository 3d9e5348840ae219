"""``kafka-zk up --secure`` and foreign programs: each takes the file that is made for it, as it is."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.embedded.ports import free_ports
from tests.integration.processes import start
from tests.peers import jars, java

pytestmark = pytest.mark.peers

_TIMEOUT_S = 60
TOPIC = "foreign"


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What ``up`` tells when the cluster is ready."""
    where = ("--data", tmp_path_factory.mktemp("secured") / "data", "--port", str(free_ports(1)[0]))
    process = start("up", "--secure", "--brokers", "2", "--json", *where)
    assert process.stdout and process.stderr
    told = next((each for each in map(json.loads, process.stdout) if each["event"] == "ready"), None)
    assert told is not None, process.stderr.read()
    yield told
    process.terminate()
    process.communicate(timeout=_TIMEOUT_S)
    assert process.returncode == 0


@pytest.mark.parametrize("version", [jars.ORACLE_VERSION, jars.NEWEST_VERSION])
def test_tools_of_java_take_the_file_as_it_is(ready: dict[str, Any], version: str) -> None:
    where = ["--bootstrap-server", ready["bootstrap"], "--command-config", ready["client_properties"]]
    topic = f"{TOPIC}-{version}"
    tool = "org.apache.kafka.tools.TopicCommand"
    java.run_tool(version, tool, [*where, "--create", "--topic", topic, "--partitions", "2"])
    assert topic in java.run_tool(version, tool, [*where, "--list"]).text.split()


def test_kcat_takes_its_file_as_it_is(ready: dict[str, Any]) -> None:
    """The addresses are in it, too."""
    kcat = ["kcat", "-q", "-F", ready["librdkafka_properties"]]
    subprocess.run([*kcat, "-P", "-t", TOPIC], input="hello\n", text=True, timeout=_TIMEOUT_S, check=True)
    read = subprocess.run(
        [*kcat, "-C", "-t", TOPIC, "-o", "beginning", "-e"],
        capture_output=True, text=True, timeout=_TIMEOUT_S, check=True,
    )  # fmt: skip
    assert read.stdout == "hello\n"


def test_another_users_name_without_the_password_is_not_let_in(ready: dict[str, Any], tmp_path: Path) -> None:
    text = Path(ready["librdkafka_properties"]).read_text().replace("sasl.password=", "sasl.password=x")
    wrong = tmp_path / "wrong.properties"
    wrong.write_text(text)
    listed = subprocess.run(
        ["kcat", "-F", str(wrong), "-L", "-m", "5"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    assert listed.returncode != 0 and "Authentication failed" in listed.stderr
