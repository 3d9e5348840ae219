"""What is known of a single request to a coordinator that cannot be reached, or does not respond."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.error import ConnectionLost, ConnectionRefusedError
from twisted.internet.task import Clock

from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.coordinators import TRANSACTION
from kafka_zk.clients.connection.errors import KafkaError, NoBrokersAvailable, ResponseLost
from kafka_zk.clients.connection.key_coordinator import KeyCoordinator
from kafka_zk.clients.connection.waiting import run
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.clients.connection.fake_cluster import finish

FindResponse = codec.response(ApiKey.FIND_COORDINATOR)


class Brokers:
    """Stands for Cluster and its connections. ``failing``: the step that fails."""

    def __init__(self, failing: str) -> None:
        self.failing = failing

    async def request_any(self, api_key: ApiKey, message: Any) -> Any:
        if self.failing == "find":
            raise NoBrokersAvailable("no broker can be reached")
        found = FindResponse.Coordinator(key=message.coordinator_keys[0], error_code=0, host="h", port=9092)
        return FindResponse(coordinators=[found])

    async def connection_to(self, host: str, port: int, purpose: str) -> Brokers:
        if self.failing == "connect":
            raise ConnectionRefusedError
        return self

    def version_for(self, api_key: ApiKey) -> int:
        return 2

    async def request(self, api_key: ApiKey, message: Any, *, version: int, timeout_s: float | None) -> Any:
        raise ConnectionLost


@pytest.mark.parametrize(
    ("failing", "lowest", "may_arrive", "code"),
    [
        ("find", 0, False, None),
        ("connect", 0, False, ErrorCode.NETWORK_EXCEPTION),
        ("version", 3, False, ErrorCode.UNSUPPORTED_VERSION),
        ("respond", 0, True, ErrorCode.NETWORK_EXCEPTION),
    ],
)
def test_only_a_request_that_was_sent_may_arrive_late(
    failing: str, lowest: int, may_arrive: bool, code: ErrorCode | None
) -> None:
    """Otherwise, each broken connection would cost producers of transactions a new epoch."""
    clock = Clock()
    config = ClientConfig(bootstrap_servers="h:9092")
    coordinator = KeyCoordinator(clock, config, Brokers(failing), "x", TRANSACTION)  # type: ignore[arg-type]
    with pytest.raises(KafkaError) as caught:
        finish(clock, run(coordinator.ask(ApiKey.END_TXN, None, lowest, 4)))
    assert isinstance(caught.value, ResponseLost) is may_arrive
    assert caught.value.code is code
