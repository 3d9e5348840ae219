"""``kafka-zk web --share`` is reached at one address, which other machines can reach."""

import errno
import socket

import pytest
from click.testing import CliRunner
from twisted.internet.error import CannotListenError

from kafka_zk.cli.cluster.web import _not_listening, command
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


def test_a_name_with_an_umlaut_is_compared_as_browsers_send_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [(socket.AF_INET, None, None, "", ("192.0.2.7", 0))])
    assert share_address("Schüler.example").host == "xn--schler-5ya.example"


@pytest.mark.parametrize(
    ("reason", "refusal"),
    [
        (errno.EADDRINUSE, "port 80 is in use"),
        (errno.EACCES, "not allowed to use port 80"),
        (errno.EADDRNOTAVAIL, "192.0.2.7 is not an address of this machine"),
    ],
)
def test_a_refusal_to_listen_names_its_reason(reason: int, refusal: str) -> None:
    assert refusal in _not_listening(CannotListenError("192.0.2.7", 80, OSError(reason, "")))


def test_the_port_is_not_said_to_be_on_this_machine_only() -> None:
    """With --share, the viewers' server uses it, too."""
    helped = " ".join(CliRunner().invoke(command, ["--help"]).output.split())
    assert "Port of the page, and with --share also of the viewers' page" in helped


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
    with pytest.raises(CommandFailed, match=r"no IPv4 address .* name one with --share-address"):
        share_address(None)
