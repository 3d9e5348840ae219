"""Controllers of ours and of Apache Kafka 3.9.1 connect to brokers of the other kind at the control-plane listener.

The listener is SASL_SSL, with SCRAM-SHA-512.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.peers import java
from tests.peers.processes import wait_until
from tests.peers.sasl_pair import KAFKA, OURS, SaslPair, sasl_pair

pytestmark = pytest.mark.peers

_TOPICS = "org.apache.kafka.tools.TopicCommand"
_TIMEOUT_S = 90


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslPair]:
    with sasl_pair(tmp_path_factory.mktemp("pair")) as running:
        yield running


def move_controller(pair: SaslPair, wanted: int) -> None:
    """Repeat elections until this broker is the controller."""
    client = KazooClient(pair.zookeeper)
    client.start()

    def is_done() -> bool:
        with contextlib.suppress(NoNodeError):
            if json.loads(client.get("/controller")[0])["brokerid"] == wanted:
                return True
            client.delete("/controller")
        return False

    try:
        wait_until(is_done, _TIMEOUT_S, f"controller {wanted}", interval_s=0.5)
    finally:
        client.stop()
        client.close()


def is_connected(pid: int, port: int) -> bool:
    """Whether the process has a connection to this port."""
    wanted = re.compile(rf"^\s*\d+: \w+:\w+ \w+:{port:04X} 01 (?:\S+\s+){{5}}(\d+)", re.MULTILINE)
    tables = (Path(name).read_text() for name in ("/proc/net/tcp", "/proc/net/tcp6"))
    sockets = {f"socket:[{inode}]" for text in tables for inode in wanted.findall(text)}
    folder = Path(f"/proc/{pid}/fd")
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):  # already closed
            if os.readlink(folder / name) in sockets:
                return True
    return False


@pytest.mark.parametrize(("controller", "other"), [(KAFKA, OURS), (OURS, KAFKA)], ids=["of Kafka", "of ours"])
def test_a_controller_connects_at_the_control_plane(pair: SaslPair, controller: int, other: int) -> None:
    """The brokers replicate, so they got the controller's requests."""
    move_controller(pair, controller)
    to_other = pair.ports[other]["CONTROL"]
    wait_until(lambda: is_connected(pair.brokers[controller].pid, to_other), _TIMEOUT_S, "the controller's connection")
    topic = ["--topic", f"of-{controller}"]
    at = ["--bootstrap-server", pair.bootstrap(other), "--command-config", str(pair.client_file("alice"))]
    java.run_tool("3.9.1", _TOPICS, [*at, *topic, "--create", "--partitions", "2", "--replication-factor", "2"])

    def is_replicated() -> bool:
        described = java.run_tool("3.9.1", _TOPICS, [*at, *topic, "--describe"]).text
        return len(re.findall(r"Isr: (?:0,1|1,0)\b", described)) == 2

    wait_until(is_replicated, _TIMEOUT_S, "both replicas in sync", interval_s=1)
