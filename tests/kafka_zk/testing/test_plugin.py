"""The fixtures: fresh chroots, sessions that end on demand, and no cost for runs that do not use them."""

import contextlib
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.session_expiry import SessionUnknown, session_password
from kafka_zk.registry.client.client import RegistryClient, SessionState
from kafka_zk.registry.client.errors import ConnectionLoss
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.testing.certificates import CertificateAuthority
from kafka_zk.testing.plugin import MakeCluster, MakeTopic, MakeZkClient
from kafka_zk.testing.zookeeper import Chroot
from tests.integration.processes import wait_for
from tests.kafka_zk.testing.runs import run_pytest

ROOT = Path(__file__).parents[3]


def test_a_run_without_fixtures_pays_for_pytest_only() -> None:
    code = (
        "import sys, kafka_zk.testing.plugin;"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in ('twisted', 'kazoo', 'kafka')"
        " or name.startswith(('kafka_zk.embedded', 'kafka_zk.registry'))))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert shown.stdout == "[]\n"


def test_a_password_is_that_of_javas_random() -> None:
    """ZooKeeper 3.9.5 gave this password to this session."""
    assert session_password(0x10000420BA10000).hex() == "65459d058e7b000c4bfb1e3e87a9bc91"


async def _children(client: RegistryClient, path: str) -> list[str]:
    return (await client.children(path))[0]


async def _create(client: RegistryClient, path: str, ephemeral: bool) -> None:
    await client.create(path, ephemeral=ephemeral)


@pytest.mark.integration
def test_each_test_has_a_chroot_of_its_own_1(zk_client: RegistryClient) -> None:
    assert run_blocking(_children(zk_client, "/")) == []
    run_blocking(_create(zk_client, "/mine", ephemeral=False))


@pytest.mark.integration
def test_each_test_has_a_chroot_of_its_own_2(zk_client: RegistryClient) -> None:
    assert run_blocking(_children(zk_client, "/")) == []


@pytest.mark.integration
def test_an_expired_session_takes_its_ephemerals_along_and_its_owner_learns_of_it(
    zookeeper: Chroot, make_zk_client: MakeZkClient
) -> None:
    owner, other = make_zk_client(), make_zk_client()
    states: list[SessionState] = []
    owner.add_session_listener(states.append)
    run_blocking(_create(owner, "/owned", ephemeral=True))
    session_id = owner.session_id
    assert session_id is not None
    zookeeper.expire_session(session_id)
    assert run_blocking(_children(other, "/")) == []
    assert isinstance(owner, KazooBlockingClient)
    while SessionState.LOST not in states:
        owner.process(20)
    with pytest.raises(SessionUnknown):
        zookeeper.expire_session(session_id)


def _answer(client: RegistryClient, path: str) -> list[str] | None:
    """The children, or None while the client has not noticed the lost connection."""
    with contextlib.suppress(ConnectionLoss):
        return run_blocking(_children(client, path))
    return None


def _survives_a_restart(zookeeper: Chroot, client: RegistryClient, name: str) -> bool:
    run_blocking(_create(client, f"/{name}", ephemeral=True))
    before = client.session_id
    zookeeper.restart()

    def answered() -> tuple[list[str]] | None:
        children = _answer(client, "/")
        return None if children is None else (children,)

    (children,) = wait_for(answered, "an answer")
    return name in children and client.session_id == before


@pytest.mark.integration
def test_sessions_survive_a_restart_of_zookeeper(zookeeper: Chroot, make_zk_client: MakeZkClient) -> None:
    """A restart that takes longer than the session timeout, on a busy machine, proves nothing and is repeated."""
    assert any(_survives_a_restart(zookeeper, make_zk_client(), f"owned-{attempt}") for attempt in range(5))


@pytest.mark.integration
def test_topics_have_leaders_when_they_are_returned(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic) -> None:
    from kafka_zk.clients.admin.blocking_admin import BlockingAdmin

    first, second = make_topic(partitions=3), make_topic()
    assert first != second
    with BlockingAdmin(bootstrap_servers=kafka_zk_cluster.bootstrap) as admin:
        described = admin.describe_topics([first, second])
    assert [len(described[name].available) for name in (first, second)] == [3, 1]


@pytest.mark.integration
def test_any_session_can_be_ended_by_its_id(
    zk_client: RegistryClient, make_zk_client: MakeZkClient, expire_session: Callable[[int], None]
) -> None:
    doomed = make_zk_client()
    assert doomed.session_id is not None
    run_blocking(_create(doomed, "/owned", ephemeral=True))
    expire_session(doomed.session_id)
    assert run_blocking(_children(zk_client, "/")) == []


OVERLAP = """
import pytest
from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper

events = []

@pytest.fixture(scope="session", autouse=True)
def _watched(request):
    load, serves = BrokerProcess.load, EmbeddedZooKeeper._serves_itself

    def loads(broker):
        load(broker)
        events.append(broker)

    def is_serving(server, age_s):
        events.append("asked")
        return serves(server, age_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BrokerProcess, "load", loads)
        patch.setattr(EmbeddedZooKeeper, "_serves_itself", is_serving)
        yield

def test_shared(kafka_zk_cluster, zookeeper_server):
    assert events[:2] == kafka_zk_cluster.brokers
    assert events[2] == "asked" and zookeeper_server.alive

def test_own(make_cluster, make_topic):
    make_topic(cluster=make_cluster())
    make_topic()
"""


@pytest.mark.integration
def test_the_shared_brokers_load_while_zookeeper_starts(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(OVERLAP)
    shown = run_pytest(tmp_path, "-o", "kafka_zk_brokers=2")
    assert "2 passed" in shown, shown


BROKEN = """
import pytest
from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper

loading = []

def test_broken(monkeypatch, request):
    load = BrokerProcess.load
    monkeypatch.setattr(BrokerProcess, "load", lambda broker: (load(broker), loading.append(broker)))
    monkeypatch.setattr(EmbeddedZooKeeper, "_serves_itself", fail)
    with pytest.raises(ProcessFailed):
        request.getfixturevalue("kafka_zk_cluster")
    assert [broker.alive for broker in loading] == [False]

def fail(server, age_s):
    raise ProcessFailed("broken")
"""


@pytest.mark.integration
def test_no_broker_is_left_if_zookeeper_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(BROKEN)
    shown = run_pytest(tmp_path, "-o", "kafka_zk_brokers=1")
    assert "1 passed" in shown, shown


@pytest.mark.integration
def test_users_of_a_secured_cluster_get_in(kafka_zk_secured_cluster: EmbeddedCluster, make_topic: MakeTopic) -> None:
    """The users work as soon as they are created."""
    topic = make_topic(cluster=kafka_zk_secured_cluster)
    assert kafka_zk_secured_cluster.security is not None
    for keys in (kafka_zk_secured_cluster.security.properties(), kafka_zk_secured_cluster.add_user("alice")):
        with BlockingAdmin(bootstrap_servers=kafka_zk_secured_cluster.bootstrap, security=keys) as admin:
            assert topic in admin.describe_cluster().topics


@pytest.mark.integration
def test_a_secured_cluster_of_a_tests_own(make_cluster: MakeCluster, make_topic: MakeTopic) -> None:
    """The cluster's followers log in to its leaders, even if a broker joins later."""
    cluster = make_cluster(2, {"default.replication.factor": "2"}, security=True)
    make_topic("replicated", cluster=cluster)
    cluster.add_broker()
    assert cluster.security is not None
    config = {**cluster.security.librdkafka_properties(), "bootstrap.servers": cluster.bootstrap}
    assert set(AdminClient(config).list_topics(timeout=10).brokers) == {0, 1, 2}


def test_an_authority_for_servers_of_ones_own(certificate_authority: CertificateAuthority, tmp_path: Path) -> None:
    keystore = certificate_authority.write_keystore(tmp_path / "server.pem", "server", ["localhost"])
    context = ssl.create_default_context(cafile=str(certificate_authority.write_truststore(tmp_path / "ca.pem")))
    assert len(context.get_ca_certs()) == 1
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(keystore)
