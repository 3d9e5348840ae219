"""Servers that respond, refuse, stay silent or do not exist are polled at the same time, each with a deadline."""

import socket
from threading import Event, Thread

import pytest

from kafka_zk.embedded.ports import free_port
from kafka_zk.recorder.zookeeper_health import poller as module
from kafka_zk.recorder.zookeeper_health.poller import HealthPoller
from kafka_zk.registry.client.client import SessionState

REFUSAL = "{} is not executed because it is not in the whitelist.\n"


class Server:
    """Responds to each word as ``answers`` says; None: never."""

    def __init__(self, answers: dict[str, str] | None) -> None:
        self.answers = answers or {}
        self.words: list[str] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        if answers is not None:
            Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                word = connection.recv(4).decode()
                self.words.append(word)
                connection.sendall(self.answers.get(word, REFUSAL.format(word)).encode())

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEADLINE_S", 1.0)
    monkeypatch.setattr(module, "_LATE_S", 60)


@pytest.mark.usefixtures("short")
def test_all_are_asked_at_once() -> None:
    """Two silent servers cost one deadline together, and neither of them hides another one."""
    servers = [Server({"srvr": "Mode: leader\n"}), Server(None), Server(None), Server({"ruok": "imok"})]
    absent = f"127.0.0.1:{free_port()}"
    poller = HealthPoller(",".join([*(each.address for each in servers), absent]), lambda: SessionState.CONNECTED)
    found = poller.look()
    assert found is not None and found.session is SessionState.CONNECTED
    told = [found.readings[name][:2] for name in (*(each.address for each in servers), absent)]
    silent = ("no answer", "no response within 1 s")
    assert told == [("leader", ""), silent, silent, ("answers", ""), ("no answer", "connection refused")]
    for each in servers:
        each.close()


def test_the_word_that_is_allowed_is_remembered() -> None:
    server = Server({"mntr": "zk_server_state\tfollower\n"})
    poller = HealthPoller(server.address)
    for _ in range(2):
        found = poller.look()
        assert found is not None and found.readings[server.address].state == "follower"
    assert server.words == ["srvr", "mntr", "mntr"]
    server.close()


def test_a_round_in_which_we_ourselves_were_paused_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server({"srvr": "Mode: leader\n"})
    monkeypatch.setattr(module, "_LATE_S", -1)
    assert HealthPoller(server.address).look() is None
    server.close()


def test_a_name_that_is_not_resolved_in_time_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The poller does not look the name up again before the name server has responded."""
    asked: list[str] = []
    release = socket.socketpair()

    def slow(host: str, *_: object, **__: object) -> list[object]:
        asked.append(host)
        release[0].recv(1)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    monkeypatch.setattr(module, "DEADLINE_S", 0.0)
    monkeypatch.setattr(module, "_GRACE_S", 0.05)
    monkeypatch.setattr(module, "_LATE_S", 60)
    poller = HealthPoller("nowhere")
    for _ in range(2):
        found = poller.look()
        assert found is not None and found.readings["nowhere:2181"].why == "its name is not resolved"
    assert asked == ["nowhere"]
    release[1].send(b"x")
    for each in release:
        each.close()


@pytest.mark.usefixtures("short")
def test_the_addresses_of_a_name_share_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first address takes part of the deadline; the second one still gets a request, and if it is silent too, this
    is the reason.
    """
    monkeypatch.setattr(module, "DEADLINE_S", 0.5)
    monkeypatch.setattr(module, "_GRACE_S", 3.0)
    leader = Server({"srvr": "Mode: leader\n"})
    port = int(leader.address.rpartition(":")[2])
    places = {"good": [("10.255.0.1", 1), ("127.0.0.1", port)], "bad": [(f"10.255.0.{each}", 1) for each in range(9)]}

    class Dropping(socket.socket):
        def connect(self, address: object) -> None:
            if address != ("127.0.0.1", port):
                Event().wait(self.gettimeout())
                raise TimeoutError
            super().connect(("127.0.0.1", port))

    def addresses(host: str, *_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", each) for each in places[host]]

    monkeypatch.setattr(socket, "socket", Dropping)
    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    found = HealthPoller("good,bad").look()
    assert found is not None and found.readings["good:2181"].state == "leader"
    assert found.readings["bad:2181"].why == "no response within 0.5 s"
    leader.close()
