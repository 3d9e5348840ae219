"""How a ZooKeeper server authenticates clients."""

from pathlib import Path

from kafka_zk.embedded.server_security import ServerSecurity


def test_the_passwords_of_clients_are_not_in_its_repr() -> None:
    """A failed test would print the repr."""
    login = {"sasl.jaas.config": 'Login required password="secret";'}
    assert "secret" not in repr(ServerSecurity(Path("folder"), sasl=True, client_properties=login))
