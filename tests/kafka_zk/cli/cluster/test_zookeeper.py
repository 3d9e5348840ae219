"""``kafka-zk zookeeper`` prints its address."""

import os
from pathlib import Path

import pytest

from kafka_zk.cli.main import run
from kafka_zk.embedded.ports import free_port
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper

Started = list[list[str]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The commands that would have replaced this process."""
    commands: Started = []
    monkeypatch.setattr(os, "execve", lambda path, command, environ: commands.append(command))
    return commands


def test_a_server_that_is_made_up_is_for_this_machine(
    tmp_path: Path, started: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    assert run(["zookeeper", "--data", str(tmp_path), "--port", str(port)]) == 0
    assert capsys.readouterr().err == f"listens on 127.0.0.1:{port}\n"
    assert started[0][-1] == str(tmp_path / "zoo.cfg")


def test_a_zoo_cfg_means_what_it_means_to_zookeeper_and_that_is_said(
    tmp_path: Path, started: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    port, zoo_cfg = free_port(), tmp_path / "my.cfg"
    zoo_cfg.write_text(f"dataDir={tmp_path}\nclientPort={port}\n")
    assert run(["zookeeper", str(zoo_cfg)]) == 0
    said = f"listens on all interfaces, port {port}: {zoo_cfg} has no clientPortAddress\n"
    assert capsys.readouterr().err == said
    with zoo_cfg.open("a") as file:
        file.write("clientPortAddress=127.0.0.1\n")
    assert run(["zookeeper", str(zoo_cfg)]) == 0
    assert capsys.readouterr().err == f"listens on 127.0.0.1:{port}\n"
    assert len(started) == 2


@pytest.mark.integration
def test_a_start_says_nothing_of_classes_that_are_not_there(tmp_path: Path) -> None:
    """Like most, this zoo.cfg has no admin server settings."""
    server = EmbeddedZooKeeper(tmp_path)
    settings = server._settings()
    settings.pop("admin.enableServer", None)
    server._settings = lambda: settings | {"clientPort": server.port}  # type: ignore[method-assign]
    with server:
        said = server.process.output()
        assert not [word for word in ("ClassNotFound", "NoClassDefFound", "jetty") if word in said]
