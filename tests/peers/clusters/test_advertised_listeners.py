"""``advertised.listeners`` of a running broker changes and is reset, with Apache Kafka 3.9.1 and with ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from tests.peers import targets, wire_probe
from tests.peers.processes import wait_until

pytestmark = pytest.mark.peers

_BROKER, _SET, _DELETE = 4, 0, 1
_KEY = "advertised.listeners"
_TIMEOUT_S = 20


def _alter(port: int, name: str, operation: int, value: str | None) -> int:
    asked = codec.request(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    resource = asked.AlterConfigsResource
    entry = resource.AlterableConfig(name=_KEY, config_operation=operation, value=value)
    message = asked(
        resources=[resource(resource_type=_BROKER, resource_name=name, configs=[entry])], validate_only=False
    )
    answer = wire_probe.ask(port, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, message)
    return int(answer.responses[0].error_code)


def _hosts(port: int) -> list[str]:
    asked = codec.request(ApiKey.METADATA)
    answer = wire_probe.ask(port, ApiKey.METADATA, 9, asked(topics=[], allow_auto_topic_creation=False))
    return [broker.host for broker in answer.brokers]


@pytest.mark.parametrize("name", targets.NAMES)
def test_advertised_listeners_change_while_a_broker_runs(name: str, peer_zookeeper: str, tmp_path: Path) -> None:
    """The change works for one broker, not as the default of all; clients get the address with their next metadata."""
    cluster = targets.start(name, peer_zookeeper, tmp_path, chroot=f"advertised-{name}")
    try:
        (port,) = cluster.ports
        advertised = f"PLAINTEXT://localhost:{port}"
        assert _alter(port, "", _SET, advertised) == 42
        assert _alter(port, "0", _SET, f"OTHER://localhost:{port}") == 42
        assert _alter(port, "0", _SET, advertised) == 0
        wait_until(lambda: _hosts(port) == ["localhost"], _TIMEOUT_S, "metadata with the new address")
        assert _alter(port, "0", _DELETE, None) == 0
        wait_until(lambda: _hosts(port) == ["127.0.0.1"], _TIMEOUT_S, "metadata with the old address")
    finally:
        complaints = cluster.stop()
    assert not complaints
