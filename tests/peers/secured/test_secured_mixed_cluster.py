"""Brokers of ours and of Apache Kafka 3.9.1 that log in to each other over TLS, in one cluster.

The inter-broker listener is SASL_SSL with SCRAM-SHA-512 and required certificates; its sessions last five seconds. So
the requests of controllers, fetches of followers, markers of transactions, AlterPartition and controlled shutdowns of
both kinds need a login at the other kind, again and again.
"""

from pathlib import Path

import pytest

from kafka_zk.embedded.ports import LOCALHOST
from kafka_zk.testing.certificates import CertificateAuthority
from tests.peers.clusters.mixed_cluster import APACHE_KAFKA, KINDS, mixed_properties
from tests.peers.clusters.mixed_rounds import JvmRounds
from tests.peers.processes import wait_until
from tests.peers.sasl_pair import USERS, make_users
from tests.soak.replicated_cluster import OURS, SESSION_TIMEOUT_S, Broker, Kind, ReplicatedCluster
from tests.soak.replication_rounds import STOP, Fault
from tests.soak.transaction_rounds import PROPERTIES, TransactionRounds

pytestmark = pytest.mark.peers

BETWEEN_BROKERS = "listener.name.replication."
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_SESSION_MS = 5_000
_REFUSED_WITHIN_S = 60


class SecuredCluster(ReplicatedCluster):
    """The user of the brokers is in ZooKeeper before the first broker starts."""

    def _start_zookeeper(self) -> str:
        connect_string = super()._start_zookeeper()
        make_users(connect_string)
        return connect_string


class Rounds(TransactionRounds):
    """JVMs need more time on a busy machine."""

    machine_s = JvmRounds.machine_s
    isr_full_s = JvmRounds.isr_full_s


def secured(folder: Path) -> dict[str, str]:
    """The brokers' properties, and the files that they name."""
    authority = CertificateAuthority("CA of the brokers")
    mechanism = f"{BETWEEN_BROKERS}scram-sha-512."
    return {
        **PROPERTIES,
        **mixed_properties("3.9"),
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,REPLICATION:SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        f"{BETWEEN_BROKERS}sasl.enabled.mechanisms": "SCRAM-SHA-512",
        f"{mechanism}sasl.jaas.config": f'{_MODULE} username="broker" password="{USERS["broker"]}";',
        f"{mechanism}connections.max.reauth.ms": str(_SESSION_MS),
        f"{BETWEEN_BROKERS}ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.write_keystore(folder / "broker.pem", "broker", [LOCALHOST])),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.write_truststore(folder / "authority.pem")),
    }


def said(broker: Broker) -> str:
    return (broker.folder / "broker.out").read_text(errors="replace")


def moved_its_leaderships(broker: Broker) -> bool:
    """Whether the controller answered the controlled shutdown of this broker, which has stopped."""
    if broker.kind is APACHE_KAFKA:
        return "Controlled shutdown request returned successfully" in said(broker)
    return "not all leaderships were moved away" not in said(broker)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("controller", KINDS, ids=lambda kind: kind.name)
def test_brokers_of_both_kinds_log_in_to_each_other(tmp_path: Path, controller: Kind) -> None:
    """A broker of the other kind than the controller's stops cleanly and comes back beneath transactions."""
    with SecuredCluster(tmp_path, [OURS, APACHE_KAFKA, OURS], secured(tmp_path)) as cluster:
        cluster.move_controller(controller)
        rounds = Rounds(cluster, 0)
        try:
            cluster.move_controller(controller)
            victim = next(each for each in cluster.brokers if each.kind is not controller)
            rounds.play([Fault(STOP, victim, victim, cluster, SESSION_TIMEOUT_S)])
            assert moved_its_leaderships(victim), said(victim)[-3000:]
            cluster.move_controller(controller)
            rounds.wait_acknowledged(50)
            found = rounds.judge()
        finally:
            rounds.close()
        outputs = {broker.broker_id: said(broker) for broker in cluster.brokers}
    print(rounds.story())
    assert not found, "\n".join(found)
    assert not [number for number, text in outputs.items() if USERS["broker"] in text]


def test_a_broker_with_a_wrong_password_is_refused_by_the_other_kind(tmp_path: Path) -> None:
    """Otherwise the other test would prove nothing about logins."""
    properties = secured(tmp_path)
    with SecuredCluster(tmp_path, [APACHE_KAFKA], properties) as cluster:
        cluster.properties = {key: value.replace(USERS["broker"], "wr0ng") for key, value in properties.items()}
        stranger = cluster.add(OURS)
        cluster.move_controller(OURS)
        refused = "Failed authentication with"
        wait_until(lambda: refused in said(cluster.brokers[0]), _REFUSED_WITHIN_S, "a refusal in the log of Kafka")
        assert "wr0ng" not in said(stranger)
