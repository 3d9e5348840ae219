"""The messages that ``kafka-zk break`` prints."""

from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from kafka_zk.cli.cluster import breaking


def test_only_the_links_that_were_slowed_down_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"delay_ms": {"zookeeper": 500, "brokers": 100}, "expected": "It is slow."}
    cluster = SimpleNamespace(broker_id=int, do=lambda *_, **__: state)
    monkeypatch.setattr(breaking, "find_cluster", lambda *_: cluster)
    told = CliRunner().invoke(breaking.command, ["delay", "1", "--ms", "100", "--from", "brokers"])
    assert "traffic between broker 1 and the other brokers is delayed by 100 ms" in told.output
