"""A JoinGroup may wait for minutes: during the wait it holds only what the group needs, and no request memory."""

import weakref
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.broker.handlers.table import Dispatcher
from kafka_zk.network.client import connect
from kafka_zk.network.memory_pool import FREE_BYTES
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from tests.fuzz.target import STRANGERS, Target

MEMBERS = 12
METADATA = bytes(900_000)


def join_body(version: int) -> bytes:
    request = codec.request(ApiKey.JOIN_GROUP)
    protocols = [request.JoinGroupRequestProtocol(name="range", metadata=METADATA)]
    message = request(
        group_id="g", session_timeout_ms=30_000, rebalance_timeout_ms=600_000, member_id="", group_instance_id=None,
        protocol_type="consumer", protocols=protocols, reason=None,
    )  # fmt: skip
    return bytes(codec.encode_body(message, ApiKey.JOIN_GROUP, version))


@pytest.mark.integration
def test_joins_that_wait_hold_no_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[weakref.ref[memoryview]] = []
    dispatch = Dispatcher.dispatch

    def watched(self: Dispatcher, context: Any, header: Any, body: memoryview) -> Any:
        if header.api_key == ApiKey.JOIN_GROUP:
            bodies.append(weakref.ref(body))
        return dispatch(self, context, header, body)

    monkeypatch.setattr(Dispatcher, "dispatch", watched)
    target = Target(tmp_path / "logs", ("t",), group_initial_rebalance_delay_ms="60000")
    try:
        coordinator = target.broker.services.coordinator
        while target.run(target.neighbour.request(ApiKey.FIND_COORDINATOR, version=0, key="g")).error_code:
            target.reactor.turn()
        for _ in range(MEMBERS):
            client = target.run(connect(target.reactor, "127.0.0.1", target.port(STRANGERS), "member"))
            client.send_raw(ApiKey.JOIN_GROUP, 2, [join_body(2)]).addErrback(lambda failure: None)
        target.reactor.until(lambda: len(coordinator._manager.replies) == MEMBERS)
        for _ in range(20):
            target.reactor.turn()
        assert len(bodies) == MEMBERS and [body() for body in bodies] == [None] * MEMBERS
        assert target.broker.parts.memory.used_bytes < FREE_BYTES * MEMBERS
        assert coordinator._manager.memory.used_bytes > MEMBERS * len(METADATA)
    finally:
        target.close()
