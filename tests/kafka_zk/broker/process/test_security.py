"""The security of a broker's listeners and of its connections to other brokers."""

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig
from kafka_zk.broker.process.security import BrokerSecurity
from kafka_zk.embedded.certificates import CertificateAuthority

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
HOSTS = ("127.0.0.1",)


@pytest.fixture
def authority() -> CertificateAuthority:
    return CertificateAuthority("authority")


def security(folder: Path, authority: CertificateAuthority, **changed: str) -> BrokerSecurity:
    """The security of a broker with the listeners INSIDE (between brokers), CONTROL and CLIENT. Raises:
    InvalidBrokerConfig.
    """
    properties = {
        "zookeeper.connect": "none:1", "listeners": "CLIENT://:9092,INSIDE://:9093,CONTROL://:9094",
        "listener.security.protocol.map": "CLIENT:SSL,INSIDE:SSL,CONTROL:SASL_SSL",
        "inter.broker.listener.name": "INSIDE", "control.plane.listener.name": "CONTROL",
        "sasl.enabled.mechanisms": "PLAIN", "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.control.plain.sasl.jaas.config": f'{MODULE} username="b" password="pw" user_b="pw";',
        "ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM",
        "ssl.keystore.location": str(authority.write_keystore(folder / "broker.pem", "broker", HOSTS)),
        "ssl.truststore.location": str(authority.write_truststore(folder / "ca.pem")),
        "ssl.client.auth": "required", **{key.replace("__", "."): value for key, value in changed.items()},
    }  # fmt: skip
    return BrokerSecurity.of(KafkaConfig.from_properties(properties)[0])


def test_a_broker_connects_to_each_listener_of_brokers_as_that_listener_wants(
    tmp_path: Path, authority: CertificateAuthority
) -> None:
    found = security(tmp_path, authority)
    protocols = {name: each.protocol for name, each in found.between_brokers.items()}
    assert protocols == {"INSIDE": "SSL", "CONTROL": "SASL_SSL"}
    sasl = found.between_brokers["CONTROL"].sasl
    assert sasl is not None and sasl.mechanism == "PLAIN"
    assert found.between_brokers["INSIDE"].sasl is None


def test_the_control_plane_needs_the_login_of_brokers(tmp_path: Path, authority: CertificateAuthority) -> None:
    told = r"listener CONTROL .*sasl\.mechanism\.inter\.broker\.protocol=GSSAPI"
    with pytest.raises(InvalidBrokerConfig, match=told):
        security(tmp_path, authority, sasl__mechanism__inter__broker__protocol="GSSAPI")


@pytest.mark.parametrize("listener", ["inside", "control"])
def test_brokers_that_would_not_trust_each_other_do_not_start(
    tmp_path: Path, authority: CertificateAuthority, listener: str
) -> None:
    """Kafka checks the inter-broker listener at the start, too (SslFactory.SslEngineValidator)."""
    other = CertificateAuthority("other").write_truststore(tmp_path / "other.pem")
    with pytest.raises(InvalidBrokerConfig, match="can't connect to a server") as refused:
        security(tmp_path, authority, **{f"listener.name.{listener}.ssl.truststore.location": str(other)})
    said = str(refused.value)
    assert f"listener {listener.upper()}: " in said and "ssl.truststore.location must" in said


def intermediate(folder: Path, authority: CertificateAuthority) -> tuple[Path, Path]:
    """A keystore signed by an intermediate authority, with the chain up to it, and a trust store with it alone."""
    root = authority.write(folder / "root.pem").read_bytes()
    between = CertificateAuthority("intermediate")
    own = x509.load_pem_x509_certificate(between.write(folder / "own.pem").read_bytes())
    builder = (
        x509.CertificateBuilder()
        .subject_name(own.subject).issuer_name(x509.load_pem_x509_certificate(root).subject)
        .public_key(own.public_key()).serial_number(x509.random_serial_number())
        .not_valid_before(own.not_valid_before_utc).not_valid_after(own.not_valid_after_utc)
    )  # fmt: skip
    for each in own.extensions:
        builder = builder.add_extension(each.value, each.critical)
    root_key = serialization.load_pem_private_key(root, None)
    signed = builder.sign(root_key, hashes.SHA256())  # type: ignore[arg-type]
    chained, alone = (each.public_bytes(serialization.Encoding.PEM).decode() for each in (signed, own))
    keystore = between.write_keystore(folder / "chained.pem", "broker", HOSTS)
    keystore.write_text(keystore.read_text().replace(alone, chained))
    truststore = folder / "intermediate.pem"
    truststore.write_text(chained)
    return keystore, truststore


def test_an_intermediate_authority_can_be_trusted_without_its_root(
    tmp_path: Path, authority: CertificateAuthority
) -> None:
    """Java ends a chain at any certificate in the trust store, OpenSSL by default only at a self-signed one."""
    keystore, truststore = intermediate(tmp_path, authority)
    stores = {"ssl.keystore.location": str(keystore), "ssl.truststore.location": str(truststore)}
    assert set(security(tmp_path, authority, **stores).between_brokers) == {"INSIDE", "CONTROL"}
    with pytest.raises(InvalidBrokerConfig, match="can't connect to a server"):
        security(tmp_path, authority, **{"ssl.truststore.location": str(truststore)})


def test_an_expired_certificate_between_brokers_is_refused(tmp_path: Path, authority: CertificateAuthority) -> None:
    expired = authority.write_keystore(tmp_path / "expired.pem", "broker", HOSTS, lifetime=timedelta(minutes=-5))
    with pytest.raises(InvalidBrokerConfig, match="expired"):
        security(tmp_path, authority, listener__name__inside__ssl__keystore__location=str(expired))


def test_a_listener_of_clients_may_trust_others(tmp_path: Path, authority: CertificateAuthority) -> None:
    """Clients often have certificates of another authority than the broker."""
    other = CertificateAuthority("other").write_truststore(tmp_path / "other.pem")
    found = security(tmp_path, authority, listener__name__client__ssl__truststore__location=str(other))
    assert found.listeners["CLIENT"].tls is not None and "CLIENT" not in found.between_brokers
