"""``kafka-zk up --secure`` and foreign programs: each uses the file that is made for it, unchanged."""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.embedded.certificates import CertificateAuthority
from kafka_zk.embedded.cluster_security import HOSTS
from tests.integration.processes import start, wait_for
from tests.peers import jars, java

pytestmark = pytest.mark.peers

_TIMEOUT_S = 60
TOPIC = "foreign"


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The ``ready`` event of ``up``."""
    where = ("--data", tmp_path_factory.mktemp("secured") / "data", "--port", "0")
    process = start("up", "--secure", "--brokers", "2", "--json", "-o", "password.encoder.secret=secret", *where)
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
    """The file contains the addresses, too."""
    kcat = ["kcat", "-q", "-F", ready["librdkafka_properties"]]
    subprocess.run([*kcat, "-P", "-t", TOPIC], input="hello\n", text=True, timeout=_TIMEOUT_S, check=True)
    read = subprocess.run(
        [*kcat, "-C", "-t", TOPIC, "-o", "beginning", "-e"],
        capture_output=True, text=True, timeout=_TIMEOUT_S, check=True,
    )  # fmt: skip
    assert read.stdout == "hello\n"


def test_kafkas_tool_renews_a_certificate(ready: dict[str, Any]) -> None:
    """Every change has to repeat the password of the key. The second change names the same file with new content."""
    folder = Path(ready["client_properties"]).parent
    authority = CertificateAuthority.read(folder / "authority.pem")
    first = ready["bootstrap"].split(",")[0]
    port = first.rpartition(":")[2]
    stores = "listener.name.sasl_ssl.ssl."
    for _ in range(2):
        renewed = authority.write_keystore(folder / "renewed.pem", "broker-0", HOSTS, "pw-of-key")
        own = renewed.read_text().partition("-----BEGIN CERTIFICATE-----")[2].partition("-----END")[0].split()
        added = f"{stores}keystore.location={renewed},{stores}key.password=pw-of-key"
        arguments = ["--bootstrap-server", first, "--command-config", ready["client_properties"], "--alter",
                     "--entity-type", "brokers", "--entity-name", "0", "--add-config", added]  # fmt: skip
        java.run_tool(jars.ORACLE_VERSION, "kafka.admin.ConfigCommand", arguments)
        wait_for(partial(_shows, int(port), own), "the renewal")


def _shows(port: int, lines: list[str]) -> bool:
    """Whether a broker presents the certificate with these lines."""
    return ssl.get_server_certificate(("127.0.0.1", port)).split("-----")[2].split() == lines


def test_another_users_name_without_the_password_is_not_let_in(ready: dict[str, Any], tmp_path: Path) -> None:
    text = Path(ready["librdkafka_properties"]).read_text().replace("sasl.password=", "sasl.password=x")
    wrong = tmp_path / "wrong.properties"
    wrong.write_text(text)
    listed = subprocess.run(
        ["kcat", "-F", str(wrong), "-L", "-m", "5"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    assert listed.returncode != 0 and "Authentication failed" in listed.stderr
