"""Which peers may use the memory that is reserved for brokers."""

import pytest
from twisted.internet.task import Clock

from kafka_zk.network.connection_input import ConnectionInput
from kafka_zk.network.connection_settings import ConnectionSettings
from kafka_zk.network.memory_pool import MemoryPool
from kafka_zk.protocol.api_keys import ApiKey


def new_input(*, between_brokers: bool, has_login: bool) -> ConnectionInput:
    async def dispatch(*_: object) -> None: ...

    settings = ConnectionSettings(
        Clock(), "SSL", dispatch, "SSL", memory=MemoryPool(1_000_000), between_brokers=between_brokers
    )
    if has_login:
        settings.principal_of = lambda certificate: "User:a"
    return ConnectionInput(settings)


@pytest.mark.parametrize("between_brokers", [False, True])
def test_the_reserve_is_for_brokers_requests_and_listeners(between_brokers: bool) -> None:
    taken = new_input(between_brokers=between_brokers, has_login=False)
    assert taken.memory.of_broker is between_brokers
    taken.uses_reserve(ApiKey.PRODUCE)
    assert taken.memory.of_broker is between_brokers
    taken.uses_reserve(ApiKey.LEADER_AND_ISR)
    assert taken.memory.of_broker


@pytest.mark.parametrize("between_brokers", [False, True])
def test_the_reserve_is_not_for_peers_that_are_not_known_yet(between_brokers: bool) -> None:
    taken = new_input(between_brokers=between_brokers, has_login=True)
    taken.uses_reserve(ApiKey.LEADER_AND_ISR)
    assert not taken.memory.of_broker
    taken.authenticated()
    assert taken.memory.of_broker is between_brokers
    taken.uses_reserve(ApiKey.LEADER_AND_ISR)
    assert taken.memory.of_broker
