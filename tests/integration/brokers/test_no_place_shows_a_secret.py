"""The whole life of a secured cluster, followed by a search for every secret in all output of the cluster and its
clients.

The search covers logs, traces, the recording, the output of commands, exceptions, described configurations, and the
arguments of processes. ZooKeeper, key stores and the files given to brokers and clients hold secrets, so the search
leaves them out. tests/peers/secured/test_security_spark.py searches the files of Spark.
"""

import base64
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafka_zk import BlockingProducer
from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.ports import free_ports
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.registry import run_blocking
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.security import scram
from kafka_zk.testing.certificates import CertificateAuthority
from kafka_zk.testing.clients import blocking_client
from kafka_zk.testing.zookeeper import Chroot
from tests.integration.processes import kafka_zk, start, wait_for
from tests.peers.sasl_probe import SaslProbe

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.embedded]

BROKERS = range(2)
SECRETS = {
    "broker": "of-the-brokers-8aK2", "alice": "of-alice-Qx71", "bob": "of-bob-mZ40", "dora": "of-dora-T9w3",
    "wrong": "of-nobody-5Hd8", "key": "of-the-key-Jc66", "encoder": "of-the-encoder-Wn15", "tokens": "of-tokens-Rb29",
    "added": "of-a-new-listener-Yp07",
}  # fmt: skip
MODULES = "org.apache.kafka.common.security"
SALT = b"a salt of the test"


class Life:
    """The cluster, and all output of it and its clients. ``secrets``: the strings that no output may contain."""

    def __init__(self, folder: Path, zookeeper: Chroot) -> None:
        self.folder = folder
        self.zookeeper = zookeeper.connect_string
        self.secrets = {**SECRETS}
        self.said: dict[str, str] = {}
        self.traces = folder / "traces"
        self.traces.mkdir()
        authority = CertificateAuthority()
        self.authority = authority.write_truststore(folder / "authority.pem")
        self.client = authority.write_keystore(folder / "client.pem", "carol")
        self.keystore = authority.write_keystore(folder / "broker.pem", "broker", ["127.0.0.1"], SECRETS["key"])
        self.secrets["the broker's key"] = self.keystore.read_text().splitlines()[1]
        self.secrets["the client's key"] = self.client.read_text().splitlines()[1]
        ports = free_ports(3 * len(BROKERS))
        names = ("SASL_PLAINTEXT", "SASL_SSL", "ADDED")
        self.ports = [dict(zip(names, ports[3 * each :], strict=False)) for each in BROKERS]
        self.brokers = [self.broker(each) for each in BROKERS]

    def broker(self, broker_id: int, **changed: str) -> BrokerProcess:
        names = ("SASL_PLAINTEXT", "SASL_SSL")
        scram_module = f'{MODULES}.scram.ScramLoginModule required username="broker" password="{SECRETS["broker"]}";'
        plain = f'{MODULES}.plain.PlainLoginModule required user_bob="{SECRETS["bob"]}";'
        properties = {
            "listeners": ",".join(f"{name}://127.0.0.1:{self.ports[broker_id][name]}" for name in names),
            "security.inter.broker.protocol": "SASL_SSL", "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.keystore),
            "ssl.key.password": SECRETS["key"],
            "ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority),
            **{f"listener.name.{name.lower()}.scram-sha-512.sasl.jaas.config": scram_module for name in names},
            **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": plain for name in names},
            "delegation.token.secret.key": SECRETS["tokens"], "password.encoder.secret": SECRETS["encoder"],
            "zookeeper.session.timeout.ms": "4000", "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0", **changed,
        }  # fmt: skip
        folder = self.folder / f"broker-{broker_id}{'-changed' if changed else ''}"
        return BrokerProcess(
            folder, broker_id, self.ports[broker_id]["SASL_PLAINTEXT"], self.zookeeper, properties, self.traces
        )

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{ports['SASL_SSL']}" for ports in self.ports)

    def keys(self, user: str = "alice", mechanism: str = "SCRAM-SHA-512", password: str = "") -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap, "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority), "sasl.mechanism": mechanism,
            "sasl.username": user, "sasl.password": password or SECRETS[user],
        }  # fmt: skip

    def client_file(self, name: str, keys: dict[str, str]) -> Path:
        path = self.folder / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        return path

    def run(self, *arguments: str | Path, user: str = "alice", password: str = "", stdin: str = "") -> int:
        """Run a command with a client's file, and keep its output."""
        module = f'{MODULES}.scram.ScramLoginModule required username="{user}" password="{password or SECRETS[user]}";'
        keys = {
            "security.protocol": "SASL_SSL", "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority), "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": module,
        }  # fmt: skip
        config = self.client_file(f"client-{len(self.said)}", keys)
        done = kafka_zk(
            *arguments, "--bootstrap-server", self.bootstrap, "--command-config", config, stdin=stdin
        )
        self.said[f"{len(self.said)}: kafka-zk {arguments[0]}"] = done.stdout + done.stderr
        return done.returncode

    def places(self) -> dict[str, bytes]:
        """The contents of logs, traces and the recording, and the output of clients."""
        files = [
            *self.folder.rglob("broker.log*"), *self.traces.rglob("*"), *self.folder.glob("recording*"),
        ]  # fmt: skip
        return {
            **{str(path): path.read_bytes() for path in files if path.is_file()},
            **{place: text.encode() for place, text in self.said.items()},
        }


@pytest.fixture
def life(zookeeper_server: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[Life]:
    made = Life(tmp_path, Chroot(zookeeper_server, "/secrets"))
    with blocking_client(made.zookeeper) as client:
        for user in ("broker", "alice"):
            mechanism = "SCRAM-SHA-512"
            salted = scram.salted_password(mechanism, SECRETS[user], SALT, 4096)
            credential = scram.encode_credential(scram.credential(mechanism, salted, SALT, 4096))
            run_blocking(ConfigRegistry(client).set_entity("users", user, {mechanism: credential}))
            made.secrets[f"{user}'s salted password"] = base64.b64encode(salted).decode()
    try:
        for broker in made.brokers:
            broker.start()
        wait_for(lambda: knows_all_brokers(made), "brokers", 60)
        yield made
    finally:
        for broker in made.brokers:
            broker.stop()


def knows_all_brokers(life: Life) -> bool:
    try:
        return len(AdminClient({**life.keys(), "log_level": 0}).list_topics(timeout=20).brokers) == len(BROKERS)
    except KafkaException:
        return False


def make_users(life: Life) -> None:
    """A broker stores Dora's password; the keys of all users are read from ZooKeeper."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    upsertion = UserScramCredentialUpsertion("dora", info, SECRETS["dora"].encode())
    admin = AdminClient(life.keys())
    admin.alter_user_scram_credentials([upsertion])["dora"].result(30)
    wait_for(lambda: life.run("topics", "list", user="dora") == 0, "dora logs in", 20)
    with blocking_client(life.zookeeper) as client:
        stored = run_blocking(ConfigRegistry(client).entities("users", ["alice", "broker", "dora"]))
    for user, config in stored.items():
        fields = dict(field.split("=", 1) for field in config["SCRAM-SHA-512"].split(","))
        life.secrets |= {f"{user}'s {name}": fields[name] for name in ("stored_key", "server_key")}


def make_token(life: Life) -> None:
    """Renew and use a delegation token, whose HMAC is a password."""
    with SaslProbe(life.ports[0]["SASL_PLAINTEXT"]) as probe:
        assert probe.handshake("PLAIN")[0] == 0
        assert probe.authenticate(f"\0bob\0{SECRETS['bob']}".encode())[0] == 0
        token = probe.ask(ApiKey.CREATE_DELEGATION_TOKEN, 1, renewers=[], max_lifetime_ms=-1)
        assert token.error_code == 0
        assert probe.ask(ApiKey.RENEW_DELEGATION_TOKEN, 1, hmac=token.hmac, renew_period_ms=-1).error_code == 0
        assert probe.ask(ApiKey.RENEW_DELEGATION_TOKEN, 1, hmac=b"unknown", renew_period_ms=-1).error_code
    hmac = base64.b64encode(bytes(token.hmac)).decode()
    life.secrets |= {"a token's HMAC": hmac, "a token's HMAC in hex": bytes(token.hmac).hex()}

    def log_in(password: str) -> int:
        with SaslProbe(life.ports[1]["SASL_PLAINTEXT"]) as probe:
            client = scram.scram_client("SCRAM-SHA-512", token.token_id, password, "abc", is_token=True)
            return int(probe.exchange("SCRAM-SHA-512", client)[0])

    wait_for(lambda: log_in(hmac) == 0, "the token is known", 20)
    assert log_in(hmac[:-4] + "AAAA") == 58


def change_listeners(life: Life) -> None:
    """A broker gets a listener with a login module, and refuses unusable ones; its configuration is described."""
    admin = AdminClient(life.keys())

    def alter(changes: dict[str, str]) -> None:
        resource = ConfigResource(ConfigResource.Type.BROKER, "0", incremental_configs=[
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in changes.items()
        ])  # fmt: skip
        admin.incremental_alter_configs([resource])[resource].result(30)

    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in life.ports[0].items())
    added = {
        "listeners": listeners,
        "listener.security.protocol.map":
            "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,ADDED:SASL_PLAINTEXT",
        "listener.name.added.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.added.plain.sasl.jaas.config":
            f'{MODULES}.plain.PlainLoginModule required user_eve="{SECRETS["added"]}";',
    }  # fmt: skip
    for broken in (added["listener.name.added.plain.sasl.jaas.config"].rstrip(";"), f"Nothing {SECRETS['added']}"):
        with pytest.raises(Exception, match=r"jaas|login module|JAAS") as refused:
            alter({**added, "listener.name.added.plain.sasl.jaas.config": broken})
        life.said[f"{len(life.said)}: refused"] = str(refused.value)
    alter(added)
    wait_for(lambda: "listener.name.added.plain" in described(life, admin), "broker 0 has the listener", 30)


def described(life: Life, admin: AdminClient) -> str:
    """The configuration of broker 0, as DescribeConfigs returns it."""
    (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "0")]).values()
    life.said["described"] = "\n".join(f"{entry.name}={entry.value}" for entry in future.result(30).values())
    return life.said["described"]


def start_with_mistakes(life: Life) -> None:
    """Brokers that refuse to start log the reason."""
    prefix = "listener.name.sasl_ssl.plain.sasl.jaas.config"
    mistakes: tuple[dict[str, str], ...] = (
        {"ssl.key.password": SECRETS["wrong"]},
        {prefix: f'{MODULES}.plain.PlainLoginModule required user_bob="{SECRETS["bob"]}'},
        {prefix: f"{MODULES}.plain.PlainLoginModule required user_bob=x {SECRETS['bob']};"},
    )
    for number, changed in enumerate(mistakes):
        broker = life.broker(0, **changed)
        broker.start()
        wait_for(lambda broker=broker: not broker.alive, "a broker that cannot start ends", 30)  # type: ignore[misc]
        life.said[f"a broker with mistake {number}"] = broker.process.describe_end()


def fail_to_log_in(life: Life) -> None:
    assert life.run("topics", "list", password=SECRETS["wrong"]) == 1
    for mechanism, user in (("PLAIN", "bob"), ("SCRAM-SHA-512", "alice"), ("SCRAM-SHA-512", "broker")):
        with pytest.raises(Exception, match=r".") as failed:  # noqa: SIM117
            with BlockingProducer(None, **life.keys(user, mechanism, SECRETS["wrong"])) as producer:
                producer.send("kept", b"x").result(20)
        life.said[f"{len(life.said)}: {user} fails"] = f"{failed.value!r} {failed.value} {failed.getrepr()}"


def arguments_of_processes() -> str:
    return subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout


def recorded(life: Life) -> bytes:
    return b"".join(path.read_bytes() for path in life.folder.glob("recording*"))


def found(secret: str, content: bytes) -> bool:
    forms = (secret.encode(), base64.b64encode(secret.encode()).rstrip(b"="), repr(secret).encode())
    return any(form in content for form in forms)


def test_no_secret_is_in_any_place(life: Life) -> None:
    recording = life.folder / "recording.sqlite"
    config = life.client_file(
        "web",
        {
            "security.protocol": "SASL_SSL", "ssl.ca.location": str(life.authority), "sasl.mechanism": "PLAIN",
            "sasl.username": "bob", "sasl.password": SECRETS["bob"],
        },
    )  # fmt: skip
    page = start(
        "web", "--zookeeper", life.zookeeper, "--command-config", config, "--trace", life.traces, "--record", recording,
        "--port", "0", "--json",
    )  # fmt: skip
    try:
        assert life.run("topics", "create", "--topic", "kept", "--partitions", "1", "--replication-factor", "2") == 0
        assert life.run("produce", "--topic", "kept", stdin="a\nb\nc\n") == 0
        assert life.run("consume", "--topic", "kept", "--from-beginning", "--max-messages", "3", "--group", "g") == 0
        make_users(life)
        make_token(life)
        change_listeners(life)
        fail_to_log_in(life)
        life.said["ps of the clients"] = arguments_of_processes()
        life.brokers[1].kill()
        life.brokers[1].start()
        wait_for(lambda: b"/config/users/dora" in recorded(life), "the recording has dora", 30)
    finally:
        page.terminate()
        life.said["the page's command"] = "".join(page.communicate(timeout=30))
    for broker in life.brokers:
        broker.stop()
    start_with_mistakes(life)
    held = b"".join(path.read_bytes() for path in life.folder.rglob("*.properties"))
    assert all(found(SECRETS[name], held) for name in ("bob", "broker", "alice", "key", "encoder", "tokens", "wrong"))
    places = life.places()
    assert any("recording" in place for place in places) and any("traces" in place for place in places)
    shown = [
        (place, name, _around(secret, content))
        for place, content in places.items()
        for name, secret in life.secrets.items()
        if found(secret, content)
    ]
    assert shown == []
    modules = [place for place, content in places.items() if re.search(rb"LoginModule\s+required\s+\w+=", content)]
    assert modules == []


def _around(secret: str, content: bytes) -> bytes:
    position = max(0, content.find(secret.encode()))
    return content[max(0, position - 60) : position + 20]
