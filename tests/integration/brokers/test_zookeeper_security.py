"""A secured ZooKeeper: TLS, SASL DIGEST-MD5, digest; the ACL of every znode; and clear refusals.

These are complaints 24 (confusing ACLs; digest is not SASL) and 25 (failing TLS reads; host names by reverse DNS).
"""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.main import run
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.embedded.ports import LOCALHOST
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.sources import LogSource, WatchSource
from kafka_zk.registry.client.client import Create, SessionState
from kafka_zk.registry.client.errors import AuthenticationFailed, ConnectionTimeout, NoAuth
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.security_keys import DIGEST, JAAS_FILE, SSL, zookeeper_security
from kafka_zk.testing.certificates import CertificateAuthority
from kafka_zk.testing.plugin import MakeCluster, MakeZooKeeper
from kafka_zk.testing.timings import CONNECTION_TIMEOUT_MS, SESSION_TIMEOUT_MS
from kafka_zk.testing.variants import PASSWORD, USER, Variant, server_security, write_login
from kafka_zk.testing.zookeeper import quick_cluster
from tests.integration.brokers.acls import ALL, OPEN, READ, Acl, znode_acls
from tests.integration.processes import wait_for

pytestmark = pytest.mark.integration

LONG_TICK_MS, LONG_SESSION_MS = 3_000, 60_000  # longer than any wait of a test on a busy machine
HOPELESS_MS = 5_000  # for a server that just closes the connection, so that only the timeout ends the attempts


def client_of(
    server: EmbeddedZooKeeper,
    changed: Mapping[str, str] | None = None,
    chroot: str = "",
    *,
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
    connection_timeout_ms: int = CONNECTION_TIMEOUT_MS,
) -> KazooBlockingClient:
    """A client with the valid properties except those in ``changed``; an empty value removes a key."""
    properties = {key: value for key, value in {**server.client_properties, **(changed or {})}.items() if value}
    return KazooBlockingClient(
        server.connect_string + chroot,
        session_timeout_ms,
        connection_timeout_ms=connection_timeout_ms,
        security=zookeeper_security(properties),
    )


def long_sessions(variant: Variant, folder: Path) -> EmbeddedZooKeeper:
    """A server, not yet started, that allows sessions of LONG_SESSION_MS."""
    security = server_security(variant, folder / "security")
    return EmbeddedZooKeeper(folder, tick_time_ms=LONG_TICK_MS, force_sync=False, security=security)


async def create(client: KazooBlockingClient, path: str, data: bytes = b"") -> None:
    await client.create(path, data)


# --- complaint 24 -----------------------------------------------------------------------------------------------------


def creator_of(variant: Variant, acls: Mapping[str, Acl]) -> str:
    """The identity that must own a variant's znodes."""
    scheme = {"digest": "digest", "sasl": "sasl", "mtls": "x509"}[variant]
    owners = {(s, i) for acl in acls.values() for s, i, _ in acl if s != "world"}
    assert len(owners) == 1, f"one broker user creates all znodes, not {owners}"
    [(found, identity)] = owners
    assert found == scheme
    return identity


def _lasts(path: str) -> bool:
    """Excludes ZooKeeper's own znodes, because other sessions begin and end during the test."""
    return not path.startswith("/zookeeper")


def recorded_by_watches(server: EmbeddedZooKeeper) -> set[str]:
    """The znodes that the recorder of a live cluster sees."""
    source = WatchSource(server.connect_string, zookeeper_security(server.client_properties))
    recording = Recording()

    def seen() -> set[str]:
        recording.add([], source.read())
        found = set(recording.znodes.after(recording.entries.count).znodes)
        return {path for path in found if _lasts(path) and path != "/"} if "/config/brokers/0" in found else set()

    try:
        found: set[str] = wait_for(seen, "the znodes")
        return found
    finally:
        source.close()


def recorded_from_log(server: EmbeddedZooKeeper) -> set[str]:
    recording = Recording()
    recording.add([], LogSource(server.data_dir / "data").read())
    found = recording.znodes.after(recording.entries.count).znodes
    return {path for path in found if _lasts(path) and path != "/"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "variant", [*(pytest.param(each, marks=pytest.mark.long) for each in ("open", "digest", "tls")), "sasl", "mtls"]
)
def test_complaint_24_every_znode_has_the_acl_of_its_kind(
    variant: Variant, make_zookeeper: MakeZooKeeper, make_cluster: MakeCluster
) -> None:
    """Create brokers, topics, configurations and records, then list every znode and check its ACL."""
    server = make_zookeeper(variant)
    cluster = make_cluster(broker_count=1, zookeeper=server)
    with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic("secured", 2, 1, {"retention.ms": "600000"})
    with BlockingProducer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send("secured", b"value", partition=1).result()
    with BlockingReader(bootstrap_servers=cluster.bootstrap) as reader:
        reader.assign({TopicPartition("secured", 1): 0})
        assert wait_for(lambda: reader.poll(1_000), "the record")[0].value == b"value"
    with client_of(server) as client:  # znodes that no part of the broker writes yet
        for path in ("/config/users/alice", "/consumers/group", "/config/brokers/0"):
            run_blocking(create(client, path))

    acls = znode_acls(server.connect_string, server.client_properties)
    acls.pop("/")  # ZooKeeper's own
    assert recorded_by_watches(server) == recorded_from_log(server) == {path for path in acls if _lasts(path)}
    assert {"/brokers/ids/0", "/controller", "/brokers/topics/secured/partitions/1/state", "/cluster/id"} <= acls.keys()
    if variant in ("open", "tls"):
        assert set(acls.values()) == {OPEN}
        return
    creator = (next(iter(acls["/controller"] - {("world", "anyone", READ)}))[0], creator_of(variant, acls), ALL)
    if variant == "sasl":
        assert creator == ("sasl", USER, ALL)
    for path, acl in acls.items():
        if path.startswith("/consumers"):
            assert acl == OPEN, path
        elif path.startswith(("/config/users", "/config/brokers", "/delegation_token/tokens")):
            assert acl == {creator}, path
        else:
            assert acl == {creator, ("world", "anyone", READ)}, path


def test_complaint_24_a_stranger_may_read_but_not_write_and_is_told_why(make_zookeeper: MakeZooKeeper) -> None:
    """The strangers have no identity, the right name with a wrong password, or another name: digest verifies nothing at
    login.
    """
    server = make_zookeeper("digest")
    with client_of(server, chroot="/kafka") as owner:
        for path in ("/brokers", "/config", "/config/users", "/consumers"):
            run_blocking(create(owner, path, b"x"))

        async def in_a_multi() -> None:
            await owner.multi([Create("/config/topics"), Create("/config/users/bob")])

        run_blocking(in_a_multi())
    strangers: list[dict[str, str]] = [
        {DIGEST: "", "zookeeper.set.acl": ""},
        {DIGEST: f"{USER}:wrong"},
        {DIGEST: f"other:{PASSWORD}"},
    ]
    for changed in strangers:
        with client_of(server, changed, "/kafka") as stranger:

            async def read(path: str, stranger: KazooBlockingClient = stranger) -> bytes | None:
                return (await stranger.get(path))[0]

            assert run_blocking(read("/brokers")) == b"x"
            run_blocking(create(stranger, f"/consumers/{len(changed[DIGEST])}"))
            with pytest.raises(NoAuth, match=r"^/kafka/brokers/ids: its ACL in ZooKeeper does not permit this"):
                run_blocking(create(stranger, "/brokers/ids"))
            for secret in ("/config/users", "/config/users/bob"):
                with pytest.raises(NoAuth, match=secret):
                    run_blocking(read(secret))


def test_complaint_24_a_wrong_password_for_sasl_is_refused_at_once_and_named(
    make_zookeeper: MakeZooKeeper, tmp_path: Path
) -> None:
    """The client fails immediately, instead of retrying until a timeout that names no cause."""
    server = make_zookeeper("sasl")
    wrong = write_login(tmp_path / "wrong.conf", "Client", username=USER, password="wrong")
    with pytest.raises(AuthenticationFailed, match=rf"refused user '{USER}' or its password \(SASL DIGEST-MD5\)"):
        client_of(server, {JAAS_FILE: str(wrong)}).start()
    with pytest.raises(AuthenticationFailed, match="requires a SASL login"):
        client_of(server, {JAAS_FILE: "", "zookeeper.set.acl": ""}).start()
    with client_of(server) as client:
        run_blocking(create(client, "/right"))


def test_complaint_24_digest_is_not_sasl(make_zookeeper: MakeZooKeeper) -> None:
    """The server requires SASL and refuses the name and password that ``digest`` accepts."""
    server = make_zookeeper("sasl")
    with pytest.raises(AuthenticationFailed, match="SASL"):
        client_of(server, {JAAS_FILE: "", DIGEST: f"{USER}:{PASSWORD}"}).start()


def test_a_broker_that_is_refused_ends_with_the_reason(
    make_zookeeper: MakeZooKeeper, make_cluster: MakeCluster, tmp_path: Path
) -> None:
    server = make_zookeeper("sasl")
    wrong = write_login(tmp_path / "wrong.conf", "Client", username=USER, password="wrong")
    with pytest.raises(ProcessFailed, match=f"refused user '{USER}' or its password"):
        make_cluster(broker_count=1, zookeeper=server, properties={JAAS_FILE: str(wrong)})


@pytest.mark.parametrize("variant", [pytest.param("sasl", marks=pytest.mark.long), "mtls"])
def test_an_identity_survives_a_reconnect(variant: Variant, tmp_path: Path) -> None:
    """The session continues over the new connection with its identity and permissions."""
    with long_sessions(variant, tmp_path) as server, client_of(server, session_timeout_ms=LONG_SESSION_MS) as client:
        session_id = client.session_id
        run_blocking(create(client, "/before"))
        states: list[SessionState] = []
        client.add_session_listener(states.append)
        server.restart()

        def is_connected() -> bool:
            client.process(50)
            return states[-1:] == [SessionState.CONNECTED]

        wait_for(is_connected, "the new connection")
        run_blocking(create(client, "/before/after"))
        assert client.session_id == session_id


# --- complaint 25 -----------------------------------------------------------------------------------------------------


@pytest.fixture
def tls_server(make_zookeeper: MakeZooKeeper) -> EmbeddedZooKeeper:
    return make_zookeeper("tls")


def test_complaint_25_a_wrong_authority_is_named(tls_server: EmbeddedZooKeeper, tmp_path: Path) -> None:
    other = CertificateAuthority().write_truststore(tmp_path / "other-ca.pem")
    with pytest.raises(AuthenticationFailed, match=r"not trusted.* not signed by an authority of .*other-ca\.pem"):
        client_of(tls_server, {SSL + "truststore.location": str(other)}).start()


def test_complaint_25_a_wrong_host_name_is_refused_unless_the_check_is_off(tmp_path: Path) -> None:
    """Only the name in zookeeper.connect counts; the client makes no reverse lookup."""
    security = server_security("tls", tmp_path / "security", hosts=["zookeeper.example"])
    with EmbeddedZooKeeper(tmp_path, tick_time_ms=200, force_sync=False, security=security) as server:
        with pytest.raises(AuthenticationFailed, match="certificate is for another host: IP address mismatch"):
            client_of(server).start()
        with client_of(server, {SSL + "endpoint.identification.algorithm": " "}) as client:
            run_blocking(create(client, "/unchecked"))


@pytest.mark.parametrize(("host", "in_certificate"), [("localhost", "localhost"), (LOCALHOST, LOCALHOST)])
def test_complaint_25_names_and_addresses_are_both_checked(host: str, in_certificate: str, tmp_path: Path) -> None:
    """A certificate for an address is valid only for this address, even if a host name leads to the same server."""
    security = server_security("tls", tmp_path / "security", hosts=[in_certificate])
    with EmbeddedZooKeeper(tmp_path, tick_time_ms=200, force_sync=False, security=security) as server:
        trusting = zookeeper_security(server.client_properties)
        with KazooBlockingClient(f"{host}:{server.tls_port}", 4000, security=trusting) as client:
            run_blocking(create(client, "/checked"))
        other = "localhost" if host == LOCALHOST else LOCALHOST
        with pytest.raises(AuthenticationFailed, match="certificate is for another host"):
            KazooBlockingClient(f"{other}:{server.tls_port}", 4000, security=trusting).start()


def test_complaint_25_reads_of_every_size_arrive_whole(tmp_path: Path) -> None:
    """Some responses span many TLS records, and some records hold many responses."""
    sizes = [0, 1, 16_383, 16_384, 16_385, 100_000, 900_000, *range(200)]
    with long_sessions("tls", tmp_path) as server, client_of(server, session_timeout_ms=LONG_SESSION_MS) as client:

        async def write_and_read() -> list[bytes | None]:
            for size in sizes[:7]:
                await client.create(f"/size-{size}", b"x" * size)
            for made in [client.create(f"/small-{number}", b"y" * number) for number in sizes[7:]]:
                await made
            names = [f"/size-{size}" for size in sizes[:7]] + [f"/small-{number}" for number in sizes[7:]]
            return [(await answer)[0] for answer in [client.get(name) for name in names]]

        read = run_blocking(write_and_read())
    assert [len(data or b"") for data in read] == sizes


def test_complaint_25_a_client_without_the_certificate_asked_for_is_refused(make_zookeeper: MakeZooKeeper) -> None:
    server = make_zookeeper("mtls")
    with client_of(server):
        pass  # its first handshake, which takes long on a busy machine, is over now
    without = {SSL + "keystore.location": "", "zookeeper.set.acl": ""}
    with pytest.raises(ConnectionTimeout, match=r"TLS handshake failed|server closed the connection|reset by peer"):
        client_of(server, without, connection_timeout_ms=HOPELESS_MS).start()


def test_plain_text_to_a_tls_port_and_back_is_told(tls_server: EmbeddedZooKeeper) -> None:
    with pytest.raises(ConnectionTimeout, match="does this port ask for TLS"):
        client_of(tls_server, {SSL + "client.enable": ""}, connection_timeout_ms=HOPELESS_MS).start()
    plain = KazooBlockingClient(
        f"{LOCALHOST}:{tls_server.port}",
        4000,
        connection_timeout_ms=HOPELESS_MS,
        security=zookeeper_security(tls_server.client_properties),
    )
    with pytest.raises(ConnectionTimeout, match=r"TLS handshake failed|timed out|server closed|reset by peer"):
        plain.start()


# --- supervisors ------------------------------------------------------------------------------------------------------


@pytest.mark.embedded  # brokers in containers have no supervisor
def test_the_session_of_a_dead_broker_is_closed_over_tls(tmp_path: Path) -> None:
    """The supervisor closes it with the broker's certificate; see decision 0016. The session would last much longer."""
    keys = {"zookeeper.session.timeout.ms": str(LONG_SESSION_MS)}
    with (
        long_sessions("mtls", tmp_path / "zookeeper") as server,
        quick_cluster(tmp_path / "cluster", 1, server, keys) as cluster,
        client_of(server) as client,
    ):

        async def is_registered() -> bool:
            return await client.exists("/brokers/ids/0") is not None

        assert run_blocking(is_registered())
        begun_s = time.monotonic()
        cluster.brokers[0].kill()
        wait_for(lambda: not run_blocking(is_registered()), "the end of the session")
        assert time.monotonic() - begun_s < LONG_SESSION_MS / 1000 / 2


# --- tools ------------------------------------------------------------------------------------------------------------


def test_tools_take_a_tls_config_file(
    tls_server: EmbeddedZooKeeper, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The tools accept the option and the file of Kafka's own tools."""
    config = tmp_path / "zk-tls.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in tls_server.client_properties.items()))
    with client_of(tls_server, chroot="/kafka") as client:
        for path in ("/brokers", "/brokers/topics", "/brokers/ids"):
            run_blocking(create(client, path))
    where = ["--zookeeper", tls_server.connect_string + "/kafka"]
    assert run(["znodes", *where, "--zk-tls-config-file", str(config)]) == 0
    assert "brokers" in capfd.readouterr().out
    assert run(["topics", "list", *where, "--zk-tls-config-file", str(config)]) == 0
    assert capfd.readouterr().out == ""
    other = CertificateAuthority().write_truststore(tmp_path / "other-ca.pem")
    config.write_text(f"{SSL}client.enable=true\n{SSL}truststore.location={other}\n")
    assert run(["znodes", *where, "--zk-tls-config-file", str(config)]) == 1
    said = capfd.readouterr().err
    assert "not signed by an authority of" in said
    assert said.count("\n") == 1
