"""The entry point of the broker's image takes environment variables as Kafka's usual images do."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from kafka_zk import __version__
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.ports import free_port
from tests.secure_broker import SecureBroker, make_files, server_context

DOCKER = Path(__file__).parents[2] / "docker"


def load(name: str) -> ModuleType:
    """Load a script from the folder docker, which is not a package."""
    spec = importlib.util.spec_from_file_location(name, DOCKER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def entrypoint() -> ModuleType:
    return load("entrypoint")


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_BROKER_ID", "broker.id"),
        ("KAFKA_LOG_RETENTION_HOURS", "log.retention.hours"),
        ("KAFKA_ZOOKEEPER_CLIENTCNXNSOCKET", "zookeeper.clientCnxnSocket"),
        ("KAFKA_ZOOKEEPER_CLIENT_CNXN_SOCKET", "zookeeper.clientCnxnSocket"),
        ("KAFKA_A__B___C", "a_b-c"),
    ],
)
def test_a_variable_names_a_key(entrypoint: ModuleType, variable: str, key: str) -> None:
    assert entrypoint.key_of(variable) == key


def test_it_listens_where_it_advertises_on_all_interfaces(entrypoint: ModuleType) -> None:
    environ = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka-1:9092,OUTSIDE://127.0.0.1:19092"}
    made = entrypoint.server_properties(environ, {})
    assert made["listeners"] == "PLAINTEXT://0.0.0.0:9092,OUTSIDE://0.0.0.0:19092"
    assert entrypoint.server_properties({}, {})["listeners"] == "PLAINTEXT://0.0.0.0:9092"
    assert entrypoint.server_properties({"KAFKA_LISTENERS": "A://:1"}, {})["listeners"] == "A://:1"


def test_the_environment_wins_over_the_mounted_file(entrypoint: ModuleType) -> None:
    mounted = {"num.partitions": "3", "broker.id": "7"}
    made = entrypoint.server_properties({"KAFKA_BROKER_ID": "8"}, mounted)
    assert (made["num.partitions"], made["broker.id"]) == ("3", "8")


def test_variables_that_are_no_keys_are_left_alone(entrypoint: ModuleType) -> None:
    environ = {"KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKA_JMX_PORT": "1", "KAFKA_ZK_DEBUG": "1", "KAFKA_METRICS_PORT": "9100"}
    assert set(entrypoint.server_properties(environ, {})) == {"log.dirs", "listeners"}


@pytest.mark.parametrize(
    ("port", "options"), [("9600", ["--faults-port", "9600", "--faults-host", "0.0.0.0"]), ("", [])]
)
def test_faults_are_taken_only_if_a_port_is_named(
    entrypoint: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, port: str, options: list[str]
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(entrypoint.os, "execvp", lambda file, arguments: started.append(arguments))
    monkeypatch.setattr(entrypoint, "WRITTEN", tmp_path / "server.properties")
    monkeypatch.setenv("KAFKA_ZOOKEEPER_CONNECT", "zookeeper:2181")
    monkeypatch.setenv("KAFKA_ZK_FAULTS_PORT", port)
    entrypoint.main()
    assert started[0][3:] == options


def test_options_of_the_jvm_that_secure_zookeeper_are_taken_over(entrypoint: ModuleType) -> None:
    environ = {"KAFKA_OPTS": "-Djava.security.auth.login.config=/run/secrets/jaas.conf -Dother=x -ea"}
    made = entrypoint.server_properties(environ, {})
    assert made["java.security.auth.login.config"] == "/run/secrets/jaas.conf"
    assert "other" not in made


@pytest.mark.parametrize("file", sorted(DOCKER.glob("compose*.yml")), ids=lambda path: path.name)
def test_compose_files_pin_what_they_run(file: Path) -> None:
    """Every image has a tag other than latest, and our image has the version of this repository."""
    images = [line.partition(":-")[2].rstrip("}\n") for line in file.read_text().splitlines() if "image:" in line]
    assert images
    for image in images:
        name, _, tag = image.rpartition(":")
        assert name and tag and tag != "latest", image
        assert name != "kafka-zk" or tag == __version__


def test_what_compose_sets_is_known(entrypoint: ModuleType) -> None:
    environ = {
        "KAFKA_BROKER_ID": "1",
        "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka-1:9092,OUTSIDE://127.0.0.1:19093",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    }
    config, warnings = KafkaConfig.from_properties(entrypoint.server_properties(environ, {}))
    assert warnings == []
    assert config.broker_id == 1


@pytest.mark.integration
def test_the_health_check_asks_a_real_broker(kafka_zk_cluster: EmbeddedCluster) -> None:
    healthcheck = load("healthcheck")
    assert healthcheck.controller_id(kafka_zk_cluster.brokers[0].port) in (0, 1, 2)
    with pytest.raises(ConnectionRefusedError):
        healthcheck.controller_id(free_port())


@pytest.mark.parametrize(
    ("properties", "asked"),
    [
        ("listeners=PLAINTEXT://0.0.0.0:9092", ("PLAINTEXT", 9092)),
        ("listeners=SASL_SSL://:9093,PLAINTEXT://[::]:9092", ("PLAINTEXT", 9092)),
        ("listeners=SSL://:9094, SASL_SSL://:9093", ("SASL_SSL", 9093)),
        ("a=b\nlistener.security.protocol.map=IN:SASL_PLAINTEXT, out:ssl\nlisteners=out://:1,in://:2\nc=d",
         ("SASL_PLAINTEXT", 2)),
    ],
)  # fmt: skip
def test_the_health_check_asks_the_listener_that_tells_most(properties: str, asked: tuple[str, int]) -> None:
    assert load("healthcheck").listener(properties) == asked


@pytest.mark.integration
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL", "SSL"])
def test_the_health_check_needs_no_login(tmp_path: Path, protocol: str) -> None:
    """A container whose listeners are all secured was unhealthy from its start on."""
    healthcheck, files = load("healthcheck"), make_files(tmp_path)
    context = server_context(files, asks_for_certificate=protocol == "SSL") if protocol.endswith("SSL") else None
    with SecureBroker(context, has_sasl=protocol.startswith("SASL")).running() as broker:
        assert healthcheck.serves(protocol, broker.port)
        assert broker.violations == [] and broker.principals == []
    with pytest.raises(ConnectionRefusedError):
        healthcheck.serves(protocol, free_port())


def test_the_documented_variables_of_a_secured_listener_are_known(entrypoint: ModuleType) -> None:
    page = (DOCKER.parent / "docs" / "how-to" / "containers.md").read_text()
    section = page.partition("## Secured listeners")[2].partition("## A secured ZooKeeper")[0]
    environ = dict(re.findall(r"^  (KAFKA_\w+): (.+)$", section, re.MULTILINE))
    (login,) = re.findall(r"`(KAFKA_\w+_JAAS_CONFIG)`", section)
    assert entrypoint.key_of(login) == "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config"
    mounted = {"zookeeper.connect": "zookeeper:2181", "sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    config, warnings = KafkaConfig.from_properties(entrypoint.server_properties({**environ, login: "x"}, mounted))
    assert warnings == [] and config.listener_protocols == {"SASL_SSL": "SASL_SSL"}


def test_the_written_file_is_private(
    entrypoint: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It may hold passwords; an older image left it readable."""
    written = tmp_path / "server.properties"
    written.write_text("old")
    monkeypatch.setattr(entrypoint, "WRITTEN", written)
    monkeypatch.setattr(entrypoint, "MOUNTED", tmp_path / "none")
    monkeypatch.setenv("KAFKA_ZOOKEEPER_CONNECT", "zookeeper:2181")
    monkeypatch.setattr(entrypoint.os, "execvp", lambda *arguments: None)
    entrypoint.main()
    assert written.stat().st_mode & 0o777 == 0o600
    assert "zookeeper.connect=zookeeper:2181" in written.read_text()
