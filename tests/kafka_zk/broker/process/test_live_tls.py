"""Keys and certificates that change while a broker runs."""

import ssl
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock

from kafka_zk.broker.config.dynamic_config import DynamicBrokerConfig
from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig
from kafka_zk.broker.process.live_tls import LiveTls
from kafka_zk.broker.process.security import BrokerSecurity
from kafka_zk.embedded.certificates import CertificateAuthority
from kafka_zk.protocol.errors import ApiError, ErrorCode

HOSTS = ("localhost", "127.0.0.1")
LOCATION = "listener.name.ssl.ssl.keystore.location"
PASSWORD = "listener.name.ssl.ssl.keystore.password"


class FakeListener:
    name = "SSL"

    def __init__(self) -> None:
        self.contexts: list[ssl.SSLContext] = []

    def renew_tls(self, context: ssl.SSLContext) -> None:
        self.contexts.append(context)


class FakePeers:
    def __init__(self) -> None:
        self.security: dict[str, Any] = {}


class Running:
    """A broker with one listener, whose files are in ``folder``."""

    def __init__(self, folder: Path, **changed: str | None) -> None:
        self.folder = folder
        self.authority = CertificateAuthority("authority")
        self.truststore = self.authority.write_truststore(folder / "ca.pem")
        self.keystore = self.authority.write_keystore(folder / "broker.pem", "broker", HOSTS)
        self.static = {
            "zookeeper.connect": "127.0.0.1:2181", "broker.id": "0", "listeners": "SSL://127.0.0.1:9092",
            "ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.keystore),
            "ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.truststore),
            "password.encoder.secret": "encoder-secret",
        }  # fmt: skip
        for key, value in changed.items():
            name = key.replace("_", ".")
            self.static = {other: text for other, text in self.static.items() if other != name}
            if value is not None:
                self.static[name] = value
        config, _ = KafkaConfig.from_properties(self.static)
        self.listener, self.peers = FakeListener(), FakePeers()
        listener, peers, clock = self.listener, self.peers, Clock()
        any_clock: Any = clock
        any_clock.wall_ms = lambda: 0
        self.tls = LiveTls(any_clock, config.broker_listeners, peers)  # type: ignore[arg-type]
        tls = BrokerSecurity.of(config).listeners["SSL"].tls
        assert tls is not None
        self.tls.add(listener, "SSL", tls)  # type: ignore[arg-type]
        self.dynamic = DynamicBrokerConfig(self.static)
        self.dynamic.check_listeners = self.tls.check

    def alter(self, properties: dict[str, str]) -> None:
        """Alter the configuration as AlterConfigs and the following notification do. Raises: ApiError."""
        self.dynamic.validate(properties, per_broker=True)
        self.tls.follow(self.dynamic.take(self.dynamic.stored(properties), {}))

    @property
    def renewals(self) -> int:
        return len(self.listener.contexts)


@pytest.fixture
def broker(tmp_path: Path) -> Running:
    return Running(tmp_path)


def test_another_file_is_taken_for_connections_to_come(broker: Running) -> None:
    other = broker.authority.write_keystore(broker.folder / "other.pem", "broker", HOSTS)
    broker.alter({LOCATION: str(other)})
    assert broker.renewals == 1
    assert broker.peers.security["SSL"].tls.identity.certificate_chain in other.read_text()
    broker.alter({LOCATION: str(other)})
    assert broker.renewals == 1


def test_the_same_file_with_another_content_is_taken(broker: Running) -> None:
    """Any configuration change reloads the file, because Kafka checks a broker's files whenever its configuration is
    set.
    """
    broker.alter({LOCATION: str(broker.keystore)})
    assert broker.renewals == 0
    broker.authority.write_keystore(broker.keystore, "broker", HOSTS)
    broker.alter({LOCATION: str(broker.keystore)})
    assert broker.renewals == 1


def test_a_change_that_is_removed_brings_the_old_store_back(broker: Running) -> None:
    other = broker.authority.write_keystore(broker.folder / "other.pem", "broker", HOSTS)
    broker.alter({LOCATION: str(other)})
    broker.alter({})
    assert broker.renewals == 2
    assert broker.peers.security["SSL"].tls.identity.certificate_chain in broker.keystore.read_text()


@pytest.mark.parametrize(
    "content", [b"", b"nothing", b"-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n"]
)
def test_a_broken_file_is_refused_and_the_old_one_stays(broker: Running, content: bytes) -> None:
    (broker.folder / "broken.pem").write_bytes(content)
    with pytest.raises(ApiError, match="Validation of dynamic config update of SSLFactory failed") as refused:
        broker.alter({LOCATION: str(broker.folder / "broken.pem")})
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert broker.renewals == 0 and broker.peers.security == {}


def test_a_file_that_is_broken_when_it_is_read_later_changes_nothing(broker: Running) -> None:
    """The value was written to ZooKeeper directly, or the file was replaced between the check and the notification."""
    broker.keystore.write_text("nothing")
    broker.tls.follow(KafkaConfig.from_properties(broker.static)[0])
    assert broker.renewals == 0 and broker.peers.security == {}


def test_a_broken_file_is_logged_once_until_it_is_whole(broker: Running, caplog: pytest.LogCaptureFixture) -> None:
    """A listener that is retried once a minute checks the stores, too."""
    config, whole = KafkaConfig.from_properties(broker.static)[0], broker.keystore.read_text()
    for times in (1, 2):
        broker.keystore.write_text("nothing")
        for _ in range(3):
            broker.tls.follow(config)
        assert caplog.text.count("keys and certificates could not be changed") == times
        broker.keystore.write_text(whole)
        broker.tls.follow(config)


def test_a_store_that_clients_would_not_know_is_refused(broker: Running) -> None:
    other = broker.authority.write_keystore(broker.folder / "other.pem", "somebody", HOSTS)
    with pytest.raises(
        ApiError, match=r"Keystore DistinguishedName does not match:  existing=.DN=CN=broker., new=.*somebody"
    ):
        broker.alter({LOCATION: str(other)})
    fewer = broker.authority.write_keystore(broker.folder / "fewer.pem", "broker", HOSTS[:1])
    with pytest.raises(ApiError, match=r"SubjectAltNames do not match:  existing=.SAN=.127\.0\.0\.1, localhost."):
        broker.alter({LOCATION: str(fewer)})
    more = broker.authority.write_keystore(broker.folder / "more.pem", "broker", (*HOSTS, "kafka-0"))
    broker.alter({LOCATION: str(more)})
    assert broker.renewals == 1


def test_another_name_may_be_allowed(tmp_path: Path) -> None:
    broker = Running(tmp_path)
    broker.static["ssl.allow.dn.changes"] = "true"
    broker.dynamic = DynamicBrokerConfig(broker.static)
    broker.dynamic.check_listeners = broker.tls.check
    other = broker.authority.write_keystore(broker.folder / "other.pem", "somebody", HOSTS)
    broker.alter({LOCATION: str(other)})
    assert broker.renewals == 1


def test_brokers_must_reach_each_other_with_the_old_store_and_the_new(broker: Running) -> None:
    foreign = CertificateAuthority("foreign").write_keystore(broker.folder / "foreign.pem", "broker", HOSTS)
    with pytest.raises(ApiError, match="A client SSLEngine created with the provided settings can't connect"):
        broker.alter({LOCATION: str(foreign)})


def test_a_listener_that_leaves_needs_no_store(broker: Running) -> None:
    """Another listener of the same name may come back without TLS."""
    without, _ = KafkaConfig.from_properties({**broker.static, LOCATION: ""})
    with pytest.raises(ApiError, match="keystore"):
        broker.tls.check(without)
    broker.tls.check(without, leaving={"SSL"})


CLIENTS_ONLY = {"listeners": "PLAINTEXT://127.0.0.1:9091,SSL://127.0.0.1:9092"}


def test_a_key_must_fit_its_certificate(tmp_path: Path) -> None:
    """The check covers listeners that no broker connects to."""
    broker = Running(tmp_path, **CLIENTS_ONLY)
    other = broker.authority.write_keystore(tmp_path / "other.pem", "broker", HOSTS)
    key = other.read_text().partition("-----BEGIN CERTIFICATE-----")[0]
    other.write_text(key + broker.keystore.read_text().partition("-----END PRIVATE KEY-----\n")[2])
    with pytest.raises(ApiError, match="the private key does not match its certificate"):
        broker.alter({LOCATION: str(other)})
    foreign = CertificateAuthority("foreign").write_keystore(tmp_path / "foreign.pem", "broker", HOSTS)
    broker.alter({LOCATION: str(foreign)})
    assert broker.renewals == 1 and broker.peers.security == {}


def test_a_trust_store_changes_but_is_not_added(tmp_path: Path) -> None:
    trust = {"listener.name.ssl.ssl.truststore.location": str(tmp_path / "ca.pem"),
             "listener.name.ssl.ssl.truststore.type": "PEM"}  # fmt: skip
    broker = Running(tmp_path, **CLIENTS_ONLY, ssl_truststore_location=None, ssl_truststore_type=None)
    with pytest.raises(ApiError, match="Cannot add SSL truststore to an existing listener"):
        broker.alter(trust)
    broker = Running(tmp_path, **CLIENTS_ONLY, ssl_client_auth="required")
    broker.truststore.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(ApiError, match="the trust store's certificates cannot be used"):
        broker.alter(trust)
    CertificateAuthority("another").write_truststore(broker.truststore)
    broker.alter(trust)
    assert [each["subject"] for each in broker.listener.contexts[0].get_ca_certs()] == [((("commonName", "another"),),)]


@pytest.mark.parametrize("client_auth", ["required", "requested"])
def test_a_trust_store_that_clients_are_known_by_is_not_removed(tmp_path: Path, client_auth: str) -> None:
    """Without a trust store, the broker would accept the certificates of every public authority."""
    broker = Running(tmp_path, **CLIENTS_ONLY, ssl_client_auth=client_auth)
    for key in ("ssl.truststore.location", "ssl.truststore.type"):
        del broker.dynamic.static[key]  # the removed trust store was a dynamic value
    with pytest.raises(ApiError, match="Cannot remove the SSL truststore"):
        broker.alter({})
    broker.tls.follow(broker.dynamic.take({}, {}))
    assert not broker.renewals


def test_a_password_is_encoded_in_zookeeper_and_plain_in_the_broker(broker: Running) -> None:
    encrypted = broker.authority.write_keystore(broker.folder / "encrypted.pem", "broker", HOSTS, "key-pw")
    properties = {LOCATION: str(encrypted), "listener.name.ssl.ssl.key.password": "key-pw"}
    stored = broker.dynamic.stored(properties)
    assert "key-pw" not in str(stored)
    broker.alter(properties)
    assert broker.renewals == 1
    assert broker.dynamic.own == properties


def test_a_wrong_password_is_refused_without_repeating_it(broker: Running) -> None:
    encrypted = broker.authority.write_keystore(broker.folder / "encrypted.pem", "broker", HOSTS, "key-pw")
    with pytest.raises(ApiError) as refused:
        broker.alter({LOCATION: str(encrypted), "listener.name.ssl.ssl.key.password": "wrong-pw"})
    assert "wrong-pw" not in str(refused.value)


def test_without_a_secret_no_password_is_stored(broker: Running) -> None:
    dynamic = DynamicBrokerConfig({**broker.static, "password.encoder.secret": ""})
    with pytest.raises(ApiError, match="Password encoder secret not configured"):
        dynamic.stored({PASSWORD: "pw"})
    assert dynamic.usable({PASSWORD: broker.dynamic.stored({PASSWORD: "pw"})[PASSWORD]}, per_broker=True) == {}


def test_passwords_are_encoded_anew_with_another_secret(broker: Running) -> None:
    stored = {**broker.dynamic.stored({PASSWORD: "pw"}), LOCATION: "/a"}
    renewed = DynamicBrokerConfig(
        {**broker.static, "password.encoder.secret": "new", "password.encoder.old.secret": "encoder-secret"}
    )
    changed = renewed.reencoded(stored)
    assert changed != stored and renewed.reencoded(changed) == changed
    assert renewed.usable(changed, per_broker=True) == {PASSWORD: "pw", LOCATION: "/a"}
    assert broker.dynamic.reencoded(stored) == stored


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("ssl.keystore.location", "only per-listener using the listener prefix"),
        ("listener.name.sasl_ssl.ssl.keystore.location", "no such listener with TLS"),
        ("listener.name.ssl.ssl.engine.factory.class", "Cannot update these configs dynamically"),
        ("sasl.enabled.mechanisms", "uses SASL, so they would be open"),
    ],
)
def test_other_keys_are_refused(broker: Running, key: str, told: str) -> None:
    with pytest.raises(ApiError, match=told):
        broker.alter({key: "x"})


def test_a_listener_that_goes_is_not_looked_at(tmp_path: Path) -> None:
    """A listener's stores may be removed together with the listener."""
    broker = Running(tmp_path, **CLIENTS_ONLY)
    broker.keystore.unlink()
    broker.alter({"listeners": "PLAINTEXT://127.0.0.1:9091"})
    broker.tls.remove("SSL")
    assert broker.tls.days_left() == {}


@pytest.mark.parametrize("per_broker", [True, False])
def test_another_spelling_lets_no_refused_key_through(tmp_path: Path, per_broker: bool) -> None:
    """Keys that a broker does not know can be stored, and plugins may read them; a listener ignores them."""
    opened = {"Listener.name.ssl.ssl.client.auth": "none"}
    broker = Running(tmp_path, ssl_client_auth="required")
    broker.dynamic.validate(opened, per_broker=per_broker)
    config = broker.dynamic.take(*((opened, {}) if per_broker else ({}, opened)))
    restarted = BrokerSecurity.of(config).listeners["SSL"].tls
    assert restarted is not None and restarted.client_auth == "required"


def test_a_store_is_set_for_one_broker_only(broker: Running) -> None:
    with pytest.raises(ApiError, match=f"at default cluster level, broker id must be specified: Set.{LOCATION}"):
        broker.dynamic.validate({LOCATION: "/a"}, per_broker=False)


def test_an_encoder_that_cannot_be_used_stops_the_start(broker: Running) -> None:
    with pytest.raises(InvalidBrokerConfig, match=r"password\.encoder\.iterations"):
        DynamicBrokerConfig({**broker.static, "password.encoder.iterations": "1"})


def test_the_days_of_each_certificate_are_counted(broker: Running) -> None:
    found = broker.tls.days_left()["SSL"]
    assert [subject for subject, _ in found] == ["CN=broker", "CN=authority"]
    assert all(days > 365 for _, days in found)  # the broker's clock stands in 1970
