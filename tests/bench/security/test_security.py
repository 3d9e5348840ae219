"""The bench of security: its clients log in and stay connected, and a row over SASL_SSL equals one in plaintext with
more keys.
"""

import ssl
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kafka_zk.testing.certificates import CertificateAuthority
from tests.bench import measure
from tests.bench.partition_wire import Refused
from tests.bench.security import peers
from tests.bench.security.brokers import MECHANISM, PASSWORD, USER, SecuredBroker
from tests.bench.security.life import FIGURES, ROWS, Security
from tests.peers.processes import ServerProcess
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK, Target
from tests.secure_broker import SecureBroker


def test_a_login_is_one() -> None:
    with SecureBroker(mechanisms=(MECHANISM,), users={USER: PASSWORD}).running() as broker:
        peers.log_in(broker.port, "nonce")
        assert peers.logins(broker.port, 0.01) > 0
        assert set(broker.principals) == {USER}


def test_a_refused_login_ends_the_bench() -> None:
    with SecureBroker(mechanisms=(MECHANISM,), users={USER: "another"}).running() as broker, pytest.raises(Refused):
        peers.logins(broker.port, 0.01)


def test_connections_are_over_tls(tmp_path: Path) -> None:
    authority = CertificateAuthority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.write_keystore(tmp_path / "broker.pem", "broker", ["127.0.0.1"]))
    trusted = authority.write_truststore(tmp_path / "authority.pem")
    with SecureBroker(context).running() as broker, ExitStack() as stack:
        made = peers.connections(stack, broker.port, trusted, 2)
        assert [each.version() for each in made] == ["TLSv1.3"] * 2


def test_connections_stay_open_and_of_a_jvm_its_objects_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, closed, heap_bytes = list[int](), list[int](), iter([1000, 3000, 3000, 7000])

    def connections(stack: ExitStack, port: int, authority: Path, count: int) -> None:
        opened.append(count)
        stack.callback(closed.append, count)

    monkeypatch.setattr(peers, "connections", connections)
    monkeypatch.setattr(measure, "live_heap_bytes", lambda pid: next(heap_bytes))
    kafka = Target(APACHE_KAFKA, "", [1], [], [cast(ServerProcess, SimpleNamespace(pid=7))])
    life = Security(SecuredBroker(kafka, {"EC": 2}, tmp_path), 0.02, "")
    assert [life.connections(number)["connection_bytes"] for number in range(2)] == [100, 200]
    assert (opened, closed) == ([2, 20, 2, 20], [])
    life.close()
    assert sum(closed) == sum(opened)


def test_a_row_over_sasl_ssl_has_more_keys(tmp_path: Path) -> None:
    plain = Target(KAFKA_ZK, "", [1], [])
    broker = SecuredBroker(plain, {"SASL_SSL": 2}, tmp_path)
    assert (plain.bootstrap, broker.secured().bootstrap) == ("127.0.0.1:1", "127.0.0.1:2")
    for row in ROWS.values():
        config = broker.client(row).config
        assert row.config.items() < config.items()
        assert config["security.protocol"] == "SASL_SSL"
        assert {f"{row.name}_plain_mb_per_s", f"{row.name}_secured_cpu"} <= FIGURES.keys()
