"""``--bootstrap-server`` and its environment variable accept what Kafka's tools accept."""

import click
import pytest
from click.testing import CliRunner

from kafka_zk.cli.groups.groups import brokers
from kafka_zk.cli.terminal.options import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP, bootstrap_option


@click.command()
@bootstrap_option
def _one(bootstrap: str) -> None:
    print(bootstrap)


@click.command()
@brokers("The brokers.")
def _other(bootstrap: str | None) -> None:
    print(bootstrap)


_GIVEN = " PLAINTEXT://a:1 , b:2,,[::1]:3,"
_TAKEN = "a:1,b:2,[::1]:3\n"


@pytest.mark.parametrize("command", [_one, _other])
def test_prefixes_spaces_and_commas_are_taken(command: click.Command) -> None:
    assert CliRunner().invoke(command, ["--bootstrap-server", _GIVEN]).stdout == _TAKEN


def test_the_variable_is_read_alike() -> None:
    runner = CliRunner()
    assert runner.invoke(_one, [], env={BOOTSTRAP_VARIABLE: _GIVEN}).stdout == _TAKEN
    assert runner.invoke(_one, [], env={BOOTSTRAP_VARIABLE: ""}).stdout == f"{DEFAULT_BOOTSTRAP}\n"


@pytest.mark.parametrize("command", [_one, _other])
@pytest.mark.parametrize(
    ("given", "complaint"),
    [("h", "'h' is not host:port"), ("SSL://h:1", "'SSL://h:1' contradicts"), (",", "at least one host:port")],
)
def test_what_cannot_be_used_is_refused_at_the_start(command: click.Command, given: str, complaint: str) -> None:
    """The error is a usage error with exit code 2."""
    done = CliRunner().invoke(command, ["--bootstrap-server", given])
    assert done.exit_code == 2
    assert complaint in done.stderr
