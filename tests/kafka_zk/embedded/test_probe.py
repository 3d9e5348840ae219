"""How a starter probes brokers, including secured ones."""

from pathlib import Path

import pytest

from kafka_zk.embedded.probe import ClusterView, ask_broker, ask_leaders
from kafka_zk.security.client_keys import client_security
from tests.secure_broker import Files, SecureBroker, make_files, server_context

VIEW = ClusterView(frozenset({0}), 0)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return make_files(tmp_path)


def keys(files: Files, mechanism: str = "SCRAM-SHA-512", password: str = "alice-secret") -> dict[str, str]:
    return {"security.protocol": "SASL_SSL", "ssl.ca.location": str(files.authority), "sasl.mechanism": mechanism,
            "sasl.username": "alice", "sasl.password": password}  # fmt: skip


def test_an_open_broker_answers() -> None:
    with SecureBroker(has_sasl=False).running() as broker:
        assert ask_broker("127.0.0.1", broker.port) == VIEW
        assert ask_leaders("127.0.0.1", broker.port) == {}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_secured_broker_is_logged_in_to(files: Files, mechanism: str) -> None:
    login = client_security(keys(files, mechanism))
    with SecureBroker(server_context(files)).running() as broker:
        assert ask_broker("127.0.0.1", broker.port, login) == VIEW
        assert broker.principals == ["alice"] and not broker.violations


def test_who_is_not_let_in_gets_no_answer(files: Files) -> None:
    with SecureBroker(server_context(files)).running() as broker:
        assert ask_broker("127.0.0.1", broker.port, client_security(keys(files, password="wrong"))) is None
        other = keys(files) | {"ssl.ca.location": str(files.other_authority)}
        assert ask_broker("127.0.0.1", broker.port, client_security(other)) is None
        assert ask_broker("127.0.0.1", broker.port) is None
        assert not broker.principals
