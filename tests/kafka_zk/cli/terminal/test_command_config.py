"""--command-config and its environment variable, against a small broker with TLS and SASL."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kafka_zk.cli.commands import cli
from kafka_zk.cli.main import run
from kafka_zk.cli.terminal.command_config import VARIABLE
from tests.secure_broker import Files, SecureBroker, make_files, server_context

pytestmark = pytest.mark.integration
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def broker(files: Files) -> Iterator[SecureBroker]:
    with SecureBroker(server_context(files)).running() as broker:
        yield broker


def write(folder: Path, files: Files, **changed: str) -> str:
    """Write a file as for Kafka's own tools; ``_`` stands for ``.``."""
    keys = {
        "bootstrap.servers": "elsewhere:9092",
        "acks": "all",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} required username="alice" password="alice-secret";',
        **{name.replace("_", "."): value for name, value in changed.items()},
    }
    path = folder / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    return str(path)


def topics_list(broker: SecureBroker, *options: str) -> int:
    return run(["topics", "list", "--bootstrap-server", f"SASL_SSL://127.0.0.1:{broker.port}", *options])


def test_a_command_logs_in(broker: SecureBroker, files: Files, tmp_path: Path) -> None:
    assert topics_list(broker, "--command-config", write(tmp_path, files)) == 0
    assert broker.principals == ["alice"]


def test_the_variable_is_for_every_command(
    broker: SecureBroker, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, write(tmp_path, files))
    assert topics_list(broker) == 0
    assert broker.principals == ["alice"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"sasl_jaas_config": f'{SCRAM} required username="alice" password="wr0ng";'}, "logging in to 127.0.0.1"),
        ({"sasl_mechanism": "PLAIN"}, "contradict each other"),
        ({"ssl_truststore_locaton": "/x"}, "did you mean ssl.truststore.location"),
        ({"ssl_truststore_location": "/no/such/file"}, "No such file or directory"),
        ({"security_protocol": "PLAINTEXT"}, "no effect"),
    ],
)
def test_what_is_wrong_is_one_sentence_without_secrets(
    broker: SecureBroker, files: Files, tmp_path: Path, capfd: pytest.CaptureFixture[str], changed: dict[str, str],
    told: str,
) -> None:  # fmt: skip
    assert topics_list(broker, "--command-config", write(tmp_path, files, **changed)) == 1
    said = capfd.readouterr().err
    assert told in said and len(said.strip().splitlines()) == 1
    assert "wr0ng" not in said and "alice-secret" not in said


def test_an_address_with_a_protocol_needs_the_file(
    broker: SecureBroker, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert topics_list(broker) == 2
    assert "contradicts security.protocol=PLAINTEXT" in capfd.readouterr().err


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield " ".join((*path, name)), command


def test_every_command_with_brokers_has_the_option() -> None:
    options = {name: {parameter.name for parameter in command.params} for name, command in commands(cli)}
    with_brokers = {name for name, names in options.items() if "bootstrap" in names}
    assert {"topics list", "produce", "consume", "groups describe", "watch", "reassign"} <= with_brokers
    assert not [name for name in with_brokers if "command_config" not in options[name]]
