"""What ``kafka-zk break faults`` and ``end-faults`` say about brokers that do not respond."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kafka_zk.cli.cluster import named_faults
from kafka_zk.cli.cluster.running_cluster import RunningCluster
from kafka_zk.embedded.fault_token import FAULTS_FILE
from kafka_zk.embedded.ports import free_ports


@pytest.mark.parametrize("command", [named_faults.faults, named_faults.end_faults])
def test_a_broker_that_does_not_respond_is_named(
    command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broker-0").mkdir()
    address = {"port": free_ports(1)[0], "token": "0123456789abcdef"}
    (tmp_path / "broker-0" / FAULTS_FILE).write_text(json.dumps(address))
    cluster = RunningCluster(tmp_path / "socket", {"data": str(tmp_path), "brokers": [{"id": 0}]})
    monkeypatch.setattr(named_faults, "find_cluster", lambda data, zookeeper: cluster)
    done = CliRunner().invoke(command, [])
    assert done.exit_code == 0
    assert "broker 0 does not respond" in " ".join(done.stderr.split())
