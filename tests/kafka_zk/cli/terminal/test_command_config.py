"""--command-config and its environment variable, against a small broker with TLS and SASL."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow
import pyarrow.parquet
import pytest

from kafka_zk.cli.commands import cli
from kafka_zk.cli.main import run
from kafka_zk.cli.terminal.command_config import VARIABLE
from tests.peers.processes import wait_until
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


ARGUMENTS = {
    "acls add": "--topic t --operation read --allow-principal User:a",
    "acls explain": "--topic t --principal User:a --operation read",
    "acls list": "",
    "acls remove": "--topic t",
    "compact": "--topic t",
    "consume": "--topic t",
    "elect-leaders": "--topic t",
    "groups delete": "--group g",
    "groups delete-offsets": "--group g --topic t",
    "groups describe": "--group g",
    "groups list": "",
    "groups reset-offsets": "--group g --topic t --to-earliest",
    "lake audit": "TABLE --topic t",
    "migration check": "",
    "migration status": "",
    "offsets": "--topic t",
    "produce": "--topic t",
    "quotas explain": "--user a",
    "quotas list": "",
    "quotas remove": "--user a",
    "quotas set": "--user a producer_byte_rate=1",
    "reassign": "--list",
    "tier check": "--storage FOLDER",
    "topics create": "--topic t",
    "topics delete": "--topic t",
    "topics describe": "--topic t",
    "topics list": "",
    "users add": "a --password-file PASSWORD",
    "users explain": "a",
    "users list": "",
    "users remove": "a",
    "watch": "--group g",
}
"""The arguments with which a command connects to brokers."""
WITH_ZOOKEEPER = {"extract", "groups migrate", "migration diff"}
"""These commands need ZooKeeper, too. tests/peers/secured/secured_commands.py has ``extract``."""


def test_every_command_with_brokers_is_tried() -> None:
    options = {name: {parameter.name for parameter in command.params} for name, command in commands(cli)}
    assert {name for name, names in options.items() if "bootstrap" in names} == ARGUMENTS.keys() | WITH_ZOOKEEPER


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_command_with_brokers_logs_in(broker: SecureBroker, files: Files, tmp_path: Path, name: str) -> None:
    """The broker knows few APIs; only the login counts."""
    (tmp_path / "password").write_text("new-secret\n")
    places = {"PASSWORD": str(tmp_path / "password"), "TABLE": str(parquet(tmp_path)), "FOLDER": str(tmp_path / "tier")}
    (tmp_path / "tier").mkdir()
    words = [places.get(word, word) for word in f"{name} {ARGUMENTS[name]}".split()]
    at = ["--bootstrap-server", f"SASL_SSL://127.0.0.1:{broker.port}", "--command-config", write(tmp_path, files)]
    command = [sys.executable, "-m", "kafka_zk", *words, *at]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdin is not None
        process.stdin.write(b"a record\n")
        process.stdin.close()
        try:
            wait_until(lambda: bool(broker.principals) or process.poll() is not None, 60, "a login or the end")
        finally:
            process.kill()
        assert process.stdout is not None
        assert set(broker.principals) == {"alice"}, process.stdout.read().decode()
    assert broker.violations == []


def parquet(folder: Path) -> Path:
    """A table with the offsets of one record."""
    table = folder / "table"
    table.mkdir()
    columns = {"topic": ["t"], "partition": [0], "offset": [0]}
    pyarrow.parquet.write_table(pyarrow.table(columns), table / "part-0.parquet")
    return table
