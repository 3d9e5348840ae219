"""``kafka-zk web --share`` is reached at one address, which other machines can reach."""

import socket

import pytest
from click.testing import CliRunner

from kafka_zk.cli.cluster.web import command
from kafka_zk.cli.cluster.web_sharing import share_address
from kafka_zk.cli.terminal.errors import CommandFailed


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("--share-address", "192.0.2.7"), "--share-address needs --share"),
        (("r.sqlite", "--share", "--save", "r.kzr"), "--share serves the page"),
        (("r.sqlite", "--share", "--export", "d"), "--share serves the page"),
    ],
)
def test_what_cannot_be_shared_is_refused(arguments: tuple[str, ...], refusal: str) -> None:
    done = CliRunner().invoke(command, arguments)
    assert (done.exit_code, refusal in " ".join(done.output.split())) == (2, True), done.output


def test_an_address_is_used_as_it_was_named() -> None:
    assert share_address("192.0.2.7") == ("192.0.2.7", "192.0.2.7")


def test_a_name_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [(socket.AF_INET, None, None, "", ("192.0.2.7", 0))])
    assert share_address("Teacher.example") == ("teacher.example", "192.0.2.7")


@pytest.mark.parametrize(
    ("named", "refusal"),
    [
        ("127.0.0.1", "leads to this machine only"), ("localhost", "leads to this machine only"),
        ("0.0.0.0", "leads to this machine only"), ("no-such-host.invalid", "neither an IPv4 address"),
        ("::1", "neither an IPv4 address"), ("x" * 300, "neither an IPv4 address"), ("a..b", "neither an IPv4 address"),
    ],
)  # fmt: skip
def test_an_address_that_others_cannot_reach_is_refused(named: str, refusal: str) -> None:
    with pytest.raises(CommandFailed, match=refusal):
        share_address(named)


class _Probe(socket.socket):
    own = ""

    def connect(self, address: object) -> None:
        if not self.own:
            raise OSError("network is unreachable")

    def getsockname(self) -> tuple[str, int]:
        return (self.own, 9)


def test_by_default_it_is_the_address_that_reaches_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", _Probe)
    monkeypatch.setattr(_Probe, "own", "192.0.2.9")
    assert share_address(None) == ("192.0.2.9", "192.0.2.9")


@pytest.mark.parametrize("own", ["", "127.0.0.1", "0.0.0.0"])
def test_a_machine_without_a_network_needs_an_address(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", _Probe)
    monkeypatch.setattr(_Probe, "own", own)
    with pytest.raises(CommandFailed, match="name one with --share-address"):
        share_address(None)
