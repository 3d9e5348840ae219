"""``ZooKeeperContainer``: versions, variants, restarts, and a probe that is not allowed."""

from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path

import pytest

from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.embedded.health import Health, NoAnswer, NotAllowed, ask
from kafka_zk.embedded.server_security import ServerSecurity
from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.client.errors import AuthenticationFailed, NoAuth
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.security_keys import DIGEST, JAAS_FILE, SSL, zookeeper_security
from kafka_zk.testing.certificates import CertificateAuthority
from kafka_zk.testing.variants import PASSWORD, USER, Variant, server_security, write_login
from kafka_zk.testing.zookeeper import quick_cluster
from kafka_zk.testing.zookeeper_container import TLS_PORT, ZooKeeperContainer
from tests.containers import images
from tests.integration.brokers.acls import ALL, OPEN, READ, znode_acls
from tests.integration.processes import wait_for

pytestmark = pytest.mark.containers
SESSION_TIMEOUT_MS = 4_000
CONNECTION_TIMEOUT_MS = 60_000
TIMEOUT_S = 120


def client_of(
    server: ZooKeeperContainer,
    changed: Mapping[str, str] | None = None,
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
) -> KazooBlockingClient:
    """A client with valid credentials, except for the changed keys."""
    security = zookeeper_security({**server.client_properties, **(changed or {})})
    return KazooBlockingClient(
        server.connect_string, session_timeout_ms, connection_timeout_ms=CONNECTION_TIMEOUT_MS, security=security
    )


async def create(client: KazooBlockingClient, path: str, data: bytes = b"") -> None:
    await client.create(path, data)


async def read(client: KazooBlockingClient, path: str) -> bytes | None:
    return (await client.get(path))[0]


@pytest.mark.one_in(images.ONE_IN)
@pytest.mark.parametrize("version", images.ZOOKEEPER_VERSIONS)
def test_every_version_carries_a_broker(version: str, tmp_path: Path) -> None:
    """From 3.4 on, a server supports what a broker needs: session, multi, watches, ephemerals."""
    with (
        ZooKeeperContainer(images.zookeeper_image(version)) as server,
        quick_cluster(tmp_path, 1, server.connect_string + "/kafka") as cluster,
    ):
        assert server.report() == (Health.SERVING, "standalone", True)
        assert cluster.controller_id() == 0


def test_a_restart_keeps_data_port_and_sessions(zookeeper_image: str) -> None:
    with (
        ZooKeeperContainer(zookeeper_image, tick_time_ms=3_000) as server,
        client_of(server, session_timeout_ms=60_000) as client,  # a restart may take some time on a busy machine
    ):
        run_blocking(create(client, "/kept", b"data"))
        port, session_id = server.port, client.session_id
        states: list[SessionState] = []
        client.add_session_listener(states.append)
        server.restart()

        def is_connected() -> bool:
            client.process(50)
            return states[-1:] == [SessionState.CONNECTED]

        wait_for(is_connected, "the new connection", TIMEOUT_S)
        assert run_blocking(read(client, "/kept")) == b"data"
        assert (server.port, client.session_id) == (port, session_id)


def test_killed_paused_and_resumed(zookeeper_image: str) -> None:
    """These are the faults of EmbeddedZooKeeper."""
    with ZooKeeperContainer(zookeeper_image) as server:
        with client_of(server) as client:
            run_blocking(create(client, "/kept", b"data"))
        server.kill()
        assert not server.alive
        assert server.report().health is Health.DOWN
        server.start()
        server.pause()
        assert not server.serving()
        server.resume()
        assert wait_for(server.serving, "the resumed server")
        with client_of(server) as client:
            assert run_blocking(read(client, "/kept")) == b"data"


def test_complaint_27_not_allowed_is_not_down(zookeeper_image: str) -> None:
    """The word is not in the whitelist of a server, first while it serves and then after it was killed."""
    with ZooKeeperContainer(zookeeper_image) as server:
        with pytest.raises(NotAllowed, match=r"runs but does not allow mntr: see 4lw\.commands\.whitelist"):
            ask("mntr", server.port, server.host)
        assert server.report() == (Health.SERVING, "standalone", True)
        server.kill()
        with pytest.raises(NoAnswer, match="no response to mntr"):
            ask("mntr", server.port)
        assert server.report() == (Health.DOWN, None, True)


def test_a_server_that_ends_is_told_with_its_last_words(zookeeper_image: str) -> None:
    with (
        pytest.raises(ProcessFailed, match="in a container ended, saying"),
        ZooKeeperContainer(zookeeper_image, config={"tickTime": "none"}),
    ):
        pass


@pytest.mark.one_in(3)
@pytest.mark.parametrize("variant", ["digest", "sasl", "mtls"])
def test_complaint_24_znodes_are_protected_by_each_kind_of_identity(variant: Variant, zookeeper_image: str) -> None:
    with ZooKeeperContainer(zookeeper_image, variant=variant) as server:
        with client_of(server) as client:
            for path in ("/brokers", "/config", "/config/users", "/consumers"):
                run_blocking(create(client, path))
        acls = znode_acls(server.connect_string, server.client_properties)
        [creator] = acls["/config/users"]
        assert creator[0] == {"mtls": "x509"}.get(variant, variant)
        assert creator[2] == ALL
        assert acls["/brokers"] == {creator, ("world", "anyone", READ)}
        assert acls["/consumers"] == OPEN


def test_complaint_24_wrong_passwords(zookeeper_image: str, tmp_path: Path) -> None:
    """SASL refuses the login, digest the access to the znode."""
    with ZooKeeperContainer(zookeeper_image, variant="sasl") as server:
        wrong = write_login(tmp_path / "wrong.conf", "Client", username=USER, password="wrong")
        with pytest.raises(AuthenticationFailed, match=f"refused user '{USER}'"):
            client_of(server, {JAAS_FILE: str(wrong)}).start()
    with ZooKeeperContainer(zookeeper_image, variant="digest") as server:
        with client_of(server) as client:
            run_blocking(create(client, "/brokers"))
        wrong_digest = client_of(server, {DIGEST: f"{USER}:not-{PASSWORD}"})
        with wrong_digest as stranger, pytest.raises(NoAuth, match="/brokers/ids"):
            run_blocking(create(stranger, "/brokers/ids"))


def test_complaint_25_wrong_authority_and_wrong_host_name(zookeeper_image: str, tmp_path: Path) -> None:
    with ZooKeeperContainer(zookeeper_image, variant="tls") as server:
        with client_of(server) as client:
            run_blocking(create(client, "/trusted"))
        other = CertificateAuthority().write_truststore(tmp_path / "other-ca.pem")
        with pytest.raises(AuthenticationFailed, match="not signed by an authority"):
            client_of(server, {SSL + "truststore.location": str(other)}).start()
    with ZooKeeperContainer(zookeeper_image, security=tls_for("zookeeper.example", tmp_path)) as server:
        with pytest.raises(AuthenticationFailed, match="certificate is for another host"):
            client_of(server).start()
        with client_of(server, {SSL + "endpoint.identification.algorithm": ""}) as client:
            run_blocking(create(client, "/unchecked"))


def test_complaint_25_an_address_is_checked_without_reverse_dns(zookeeper_image: str, tmp_path: Path) -> None:
    """The container's own address on the engine's network resolves back to no name or to another one."""
    folder = tmp_path / "security"
    authority = CertificateAuthority()
    security = server_security("tls", folder)
    with ZooKeeperContainer(zookeeper_image, security=security) as server:
        address = server.get_docker_client().bridge_ip(server.get_container_id())
        with pytest.raises(AuthenticationFailed, match="certificate is for another host: IP address mismatch"):
            at_address(server, address).start()
    # The next container gets a free address of the same network, not always this one.
    network = ip_network(f"{address}/24", strict=False)
    authority.write_keystore(folder / "keystore.pem", "zookeeper", list(map(str, network.hosts())))
    authority.write_truststore(folder / "truststore.pem")
    with ZooKeeperContainer(zookeeper_image, security=security) as server:
        address = server.get_docker_client().bridge_ip(server.get_container_id())
        with at_address(server, address) as client:
            run_blocking(create(client, "/checked"))


def tls_for(host: str, folder: Path) -> ServerSecurity:
    return server_security("tls", folder / "security", [host])


def at_address(server: ZooKeeperContainer, address: str) -> KazooBlockingClient:
    security = zookeeper_security(server.client_properties)
    return KazooBlockingClient(
        f"{address}:{TLS_PORT}", SESSION_TIMEOUT_MS, connection_timeout_ms=CONNECTION_TIMEOUT_MS, security=security
    )

