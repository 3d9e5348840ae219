"""The certificates and users of a secured cluster."""

import json
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from kafka_zk.cli.terminal.properties import read_properties
from kafka_zk.embedded.certificates import CertificateAuthority
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.cluster_security import HOSTS, RENEWED_BEFORE, ClusterSecurity, check_still_open, is_secured
from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.security import scram
from kafka_zk.security.client_keys import client_security
from kafka_zk.security.listener_security import inter_broker_security, listener_security
from tests.registry.world import World

SCRAM = "SCRAM-SHA-512"


@pytest.fixture
def security(tmp_path: Path) -> ClusterSecurity:
    return ClusterSecurity.prepared(tmp_path / "security")


def serial_number(path: Path) -> int:
    return x509.load_pem_x509_certificate(path.read_bytes()).serial_number


def password(security: ClusterSecurity, user: str) -> str:
    return str(security.librdkafka_properties(user)["sasl.password"])


def test_every_file_is_private_and_names_no_other_place(security: ClusterSecurity) -> None:
    security.broker_properties(0)
    security.write_client_files("127.0.0.1:9092")
    assert stat.S_IMODE(security.folder.stat().st_mode) == 0o700
    names = {path.name for path in security.folder.iterdir()}
    assert names == {"authority.pem", "ca.pem", "broker-0.pem", "passwords.json", "client.properties",
                     "admin.properties", "librdkafka.properties"}  # fmt: skip
    assert {stat.S_IMODE(path.stat().st_mode) for path in security.folder.iterdir()} == {0o600}


def test_a_later_start_uses_the_same(security: ClusterSecurity) -> None:
    security.broker_properties(0)
    kept = {path.name: path.read_bytes() for path in security.folder.iterdir()}
    again = ClusterSecurity.prepared(security.folder)
    again.broker_properties(0)
    assert {path.name: path.read_bytes() for path in security.folder.iterdir()} == kept
    assert again.properties() == security.properties()


def test_the_certificate_of_a_broker_is_renewed_before_it_ends(security: ClusterSecurity) -> None:
    authority = CertificateAuthority.read(security.folder / "authority.pem")
    keystore = authority.write_keystore(security.folder / "broker-0.pem", "broker-0", HOSTS, lifetime=RENEWED_BEFORE)
    old, ca = serial_number(keystore), serial_number(security.truststore)
    again = ClusterSecurity.prepared(security.folder)
    again.broker_properties(0)
    assert serial_number(keystore) != old
    assert serial_number(security.truststore) == ca
    renewed = serial_number(keystore)
    again.broker_properties(0)
    assert serial_number(keystore) == renewed


def test_clients_files_say_the_same_to_each_kind_of_client(security: ClusterSecurity) -> None:
    security.write_client_files("127.0.0.1:9092,127.0.0.1:9093")
    java, librdkafka = read_properties(security.client_file), read_properties(security.librdkafka_file)
    assert java.pop("bootstrap.servers") == librdkafka.pop("bootstrap.servers") == "127.0.0.1:9092,127.0.0.1:9093"
    assert client_security(java) == client_security(librdkafka)
    assert client_security(java).sasl != security.login().sasl  # brokers log in as another user
    assert client_security(read_properties(security.folder / "admin.properties")) == security.login()


def test_a_brokers_keys_are_those_that_a_broker_takes(security: ClusterSecurity) -> None:
    properties = security.broker_properties(3, ("REPLICATION", "SASL_SSL"))
    assert properties["inter.broker.listener.name"] == "REPLICATION"
    for name in ("REPLICATION", "SASL_SSL"):
        made = listener_security(properties, name, "SASL_SSL")
        assert made.tls is not None and made.sasl is not None and made.sasl.mechanisms == (SCRAM,)
    assert inter_broker_security(properties, "REPLICATION", "SASL_SSL").sasl == security.login().sasl


def test_users_are_written_once_and_beside_what_is_there(security: ClusterSecurity) -> None:
    world = World()
    client = world.clients[0]
    configs = ConfigRegistry(client)

    async def story() -> None:
        await configs.set_entity("users", "client", {"producer_byte_rate": "1000"})
        await security.write_users(client)
        written = await configs.entities("users", ["admin", "client"])
        assert written["client"]["producer_byte_rate"] == "1000"
        for user in ("admin", "client"):
            found = scram.decode_credential(written[user][SCRAM])
            salted = scram.salted_password(SCRAM, password(security, user), found.salt, found.iterations)
            assert scram.credential(SCRAM, salted, found.salt, found.iterations) == found
        await security.write_users(client)
        assert await configs.entities("users", ["admin", "client"]) == written
        await configs.set_entity("users", "admin", {SCRAM: written["client"][SCRAM]})
        await security.write_users(client)
        assert (await configs.entity("users", "admin"))[SCRAM] != written["client"][SCRAM]

    world.scheduler.run(story())


def test_passwords_differ_and_nothing_shows_them(security: ClusterSecurity, tmp_path: Path) -> None:
    other = ClusterSecurity.prepared(tmp_path / "other")
    all_passwords = {password(each, user) for each in (security, other) for user in ("admin", "client")}
    assert len(all_passwords) == 4 and min(map(len, all_passwords)) == 32
    shown = repr(security) + repr(security.login())
    assert not any(each in shown for each in all_passwords)


@pytest.mark.parametrize("text", ["[]", "{", '{"client": 1}', '{"client": "\\";"}'])
def test_passwords_that_cannot_be_understood_are_told(security: ClusterSecurity, text: str) -> None:
    (security.folder / "passwords.json").write_text(text)
    with pytest.raises(EmbeddedError, match=r"passwords\.json cannot be parsed; remove it"):
        ClusterSecurity.prepared(security.folder)


def test_a_password_that_is_gone_is_made_anew(security: ClusterSecurity) -> None:
    known = json.loads((security.folder / "passwords.json").read_text())
    (security.folder / "passwords.json").write_text(json.dumps({"admin": known["admin"]}))
    again = ClusterSecurity.prepared(security.folder)
    assert password(again, "admin") == known["admin"] and password(again, "client") != known["client"]


def test_more_users_are_there_at_a_later_start(security: ClusterSecurity) -> None:
    security.add_user("alice")
    security.add_user("admin")
    again = ClusterSecurity.prepared(security.folder)
    assert again.properties("alice") == security.properties("alice")
    assert again.login() == security.login()
    with pytest.raises(EmbeddedError, match="is not a valid user name"):
        security.add_user('alice" password="x')


def test_a_damaged_authority_is_told(security: ClusterSecurity) -> None:
    (security.folder / "authority.pem").write_text("nothing")
    with pytest.raises(EmbeddedError, match=r"authority\.pem cannot be used .*; remove it"):
        ClusterSecurity.prepared(security.folder)


@pytest.mark.parametrize("password", [None, b"x"])
def test_an_authority_with_another_key_is_told(security: ClusterSecurity, password: bytes | None) -> None:
    """Its key has a password, or does not belong to its certificate: no client would trust certificates that it signs.
    """
    hidden = NoEncryption() if password is None else BestAvailableEncryption(password)
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden)
    (security.folder / "authority.pem").write_bytes(key + security.truststore.read_bytes())
    with pytest.raises(EmbeddedError, match=r"authority\.pem cannot be used .*; remove it"):
        ClusterSecurity.prepared(security.folder)


def test_a_secured_cluster_is_not_opened_by_leaving_the_option_out(security: ClusterSecurity, tmp_path: Path) -> None:
    assert is_secured(tmp_path)
    with pytest.raises(EmbeddedError, match="without --secure it would be open"):
        check_still_open(tmp_path)
    (tmp_path / "fresh").mkdir()
    check_still_open(tmp_path / "fresh")


def test_a_secured_cluster_without_its_authority_is_not_opened(security: ClusterSecurity, tmp_path: Path) -> None:
    """A damaged authority must be removed first; then the next start with --secure creates a new one."""
    (security.folder / "authority.pem").unlink()
    with pytest.raises(EmbeddedError, match="without --secure it would be open"):
        check_still_open(tmp_path)
    assert is_secured(tmp_path)


@pytest.mark.parametrize("key", ["listeners", "listener.security.protocol.map", "security.inter.broker.protocol"])
def test_no_key_opens_a_secured_cluster(tmp_path: Path, key: str) -> None:
    with pytest.raises(EmbeddedError, match=f"{key}: a secured cluster sets it"):
        EmbeddedCluster(tmp_path, secured=True, properties={key: "PLAINTEXT"})


@pytest.mark.parametrize("was_started", [False, True])
def test_only_a_cluster_whose_brokers_have_started_was_open(was_started: bool, tmp_path: Path) -> None:
    """A start that fails during ZooKeeper's start leaves folders of brokers that had loaded their modules."""
    (tmp_path / "broker-0").mkdir()
    if was_started:
        (tmp_path / "broker-0" / "server.properties").touch()
    cluster = EmbeddedCluster(tmp_path, zookeeper="127.0.0.1:1", secured=True)
    try:
        cluster.start_zookeeper()
        assert cluster.newly_secured is was_started
    finally:
        cluster.kill()
