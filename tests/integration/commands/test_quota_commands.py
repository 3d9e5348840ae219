"""The commands of docs/how-to/quotas.md, one after the other, against a running cluster."""

import json
import re
import shlex
from collections.abc import Iterator

import pytest

from kafka_zk.cli.main import run
from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.documented import blocks

pytestmark = pytest.mark.integration

MARK = "quota commands"


@pytest.fixture
def bootstrap(kafka_zk_cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a cluster that has no quotas before and after the test."""
    monkeypatch.setenv("KAFKA_ZK_BOOTSTRAP", kafka_zk_cluster.bootstrap)
    yield kafka_zk_cluster.bootstrap
    for entity in ("--user alice", "--user alice --client-id app", "--default-client", "--default-ip"):
        run(["quotas", "remove", *entity.split()])


def test_the_commands_of_the_page(bootstrap: str, capfd: pytest.CaptureFixture[str]) -> None:
    [shown] = [block for block in blocks("docs/how-to/quotas.md") if block.mark == MARK]
    said: dict[str, str] = {}
    for line in shown.commands:
        program, *arguments = shlex.split(line)
        assert program == "kafka-zk"
        assert run(arguments) == 0, capfd.readouterr().err
        said[" ".join(arguments[:2])] = capfd.readouterr().out
    explained = {row.split()[0]: row for row in said["quotas explain"].splitlines()[1:]}
    assert re.search(r" 1048576(\.0)? +/config/users/alice +", explained["producer_byte_rate"])
    assert re.search(r" 65536(\.0)? +/config/users/alice/clients/app +", explained["consumer_byte_rate"])
    assert "/config/clients/<default>" in explained["request_percentage"]
    listed = {(row["user"], row["client-id"], row["ip"], row["quota"]) for row in json.loads(said["quotas list"])}
    assert listed == {
        ("alice", None, None, "producer_byte_rate"),
        ("alice", "app", None, "consumer_byte_rate"),
        (None, "<default>", None, "request_percentage"),
        (None, None, "<default>", "connection_creation_rate"),
    }
    assert run(["quotas", "list", "--json"]) == 0
    left = {row["quota"] for row in json.loads(capfd.readouterr().out)}
    assert left == {quota for *_, quota in listed} - {"producer_byte_rate"}
