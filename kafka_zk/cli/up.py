"""``kafka-zk up``: a whole cluster in the foreground."""

import contextlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from kafka_zk.broker.signals import ending_signals
from kafka_zk.cli.errors import CommandFailed
from kafka_zk.cli.options import json_option, zookeeper_option, zookeeper_properties
from kafka_zk.cli.output import note, print_json
from kafka_zk.cli.properties import KEY_VALUE
from kafka_zk.cli.waiting import told, waiting

if TYPE_CHECKING:
    from kafka_zk.embedded.broker import BrokerProcess
    from kafka_zk.embedded.cluster import EmbeddedCluster
    from kafka_zk.embedded.process import ChildProcess

ZOOKEEPER_PORT = 2181
WATCH_INTERVAL_S = 0.2
PATIENCE_S = 2
CHOSEN_BY_UP = frozenset(("broker.id", "listeners", "advertised.listeners", "log.dir", "log.dirs", "zookeeper.connect"))


class _Stop(BaseException):
    """SIGINT, SIGTERM or SIGHUP arrived."""


class _Signals:
    """Turns the first signal into a stop, and one that comes some time later into a stop by force.

    Those in between are the same request told twice: a terminal and `timeout` signal a whole process group.
    """

    def __init__(self) -> None:
        self._first_s: float | None = None

    def handle(self, number: int, frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if self._first_s is None:
            self._first_s = now_s
            raise _Stop
        if now_s - self._first_s > PATIENCE_S:
            raise _Stop


@click.command("up", short_help="Run a whole cluster in the foreground: ZooKeeper and brokers.")
@click.option("--brokers", type=click.IntRange(1), default=3, show_default=True, help="How many; ids start at 0.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="Port of broker 0, the others follow; 0 chooses free ones.",
)
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), help="Data directory; a later start with it continues."
)
@zookeeper_option("Use this ZooKeeper instead of an embedded one.")
@click.option(
    "--zookeeper-port",
    type=click.IntRange(1, 65535),
    help=f"Port of the embedded ZooKeeper.  [default: {ZOOKEEPER_PORT}, or a free one if that is taken]",
)
@click.option("-o", "--override", "overrides", type=KEY_VALUE, multiple=True, help="A broker's key; may be repeated.")
@json_option
def command(
    brokers: int,
    port: int,
    data: Path | None,
    zookeeper: str | None,
    zookeeper_port: int | None,
    overrides: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Run a cluster in the foreground until SIGINT, SIGTERM or SIGHUP: ZooKeeper and BROKERS processes.

    Prints the pid of every process and, once all brokers are registered, the controller is known and all partitions
    that can have a leader have one that serves, one line "ready bootstrap=... zookeeper=...". Without --data everything
    is in a temporary folder, which is removed at the end. If a broker dies, stderr says so, and the others go on.

    \b
    kafka-zk up --brokers 1 --data ./cluster -o log.retention.hours=1
    kafka-zk up --zookeeper zk1:2181,zk2:2181/kafka
    """
    from kafka_zk.embedded.cluster import EmbeddedCluster
    from kafka_zk.embedded.ports import can_listen

    if port + brokers - 1 > 65535:
        raise click.UsageError(f"{brokers} brokers from port {port} on exceed port 65535")
    properties = _checked({**zookeeper_properties(), **dict(overrides)})
    with _data_directory(data) as directory:
        cluster = EmbeddedCluster(
            directory,
            broker_count=brokers,
            port=port,
            zookeeper=zookeeper,
            zookeeper_port=zookeeper_port or (ZOOKEEPER_PORT if can_listen(ZOOKEEPER_PORT) else 0),
            properties=properties,
        )
        _run(cluster, as_json)


def _checked(properties: dict[str, str]) -> dict[str, str]:
    """The overrides, refused here rather than in every broker's log when one is wrong."""
    from kafka_zk.config.kafka_config import KafkaConfig

    if chosen := sorted(CHOSEN_BY_UP & properties.keys()):
        raise click.UsageError(f"-o {chosen[0]}: up sets it for each broker")
    _, warnings = KafkaConfig.from_properties({"zookeeper.connect": "127.0.0.1:2181"}, properties)
    for warning in warnings:
        note(f"warning: {warning}")
    return properties


@contextlib.contextmanager
def _data_directory(data: Path | None) -> Iterator[Path]:
    if data is not None:
        yield data
        return
    temporary = Path(tempfile.mkdtemp(prefix="kafka-zk-"))
    keep = True
    try:
        yield temporary
        keep = False
    finally:
        # After a failure it stays if there are logs: the message names one of them.
        if not keep or not any(temporary.rglob("*.log")):
            shutil.rmtree(temporary, ignore_errors=True)


def _run(cluster: "EmbeddedCluster", as_json: bool) -> None:
    signals = _Signals()
    for number in ending_signals():
        signal.signal(number, signals.handle)
    try:
        _start(cluster, as_json)
        _watch(cluster, as_json)
    except _Stop:
        pass
    except BaseException:
        cluster.kill()
        raise
    _stop(cluster)


def _start(cluster: "EmbeddedCluster", as_json: bool) -> None:
    from kafka_zk.embedded import cluster as brokers
    from kafka_zk.embedded import zookeeper as server

    with waiting("ZooKeeper to answer", server.START_TIMEOUT_S):
        cluster.start_zookeeper()
    if cluster.zookeeper:
        _say(as_json, f"zookeeper pid {cluster.zookeeper.pid}", event="zookeeper", pid=cluster.zookeeper.pid)
    cluster.start_brokers()
    for broker in cluster.brokers:
        _say(
            as_json,
            f"broker {broker.broker_id} pid {broker.pid} port {broker.port}",
            event="broker",
            id=broker.broker_id,
            pid=broker.pid,
            port=broker.port,
        )

    def registered(broker: "BrokerProcess") -> None:
        if as_json:
            print_json({"event": "registered", "id": broker.broker_id})

    ids = ", ".join(str(broker.broker_id) for broker in cluster.brokers)
    with waiting(f"brokers {ids} to register and lead", brokers.START_TIMEOUT_S):
        cluster.wait_ready(on_registered=registered)
    bootstrap, zookeeper = cluster.bootstrap, cluster.zookeeper_connect
    line = f"ready bootstrap={bootstrap} zookeeper={zookeeper}"
    _say(as_json, line, event="ready", bootstrap=bootstrap, zookeeper=zookeeper)


def _say(as_json: bool, line: str, **fields: object) -> None:
    if as_json:
        print_json(fields)
    else:
        told()
        click.echo(line)
        sys.stdout.flush()


def _watch(cluster: "EmbeddedCluster", as_json: bool) -> None:
    """Tell of every process that ends, until a signal comes or no broker is left."""
    watched: list[ChildProcess] = [broker.process for broker in cluster.brokers]
    if cluster.zookeeper:
        watched.append(cluster.zookeeper.process)
    while True:
        for process in [process for process in watched if not process.alive]:
            note(process.describe_end())
            if as_json:
                print_json({"event": "ended", "message": process.describe_end()})
            watched.remove(process)
        if not any(broker.alive for broker in cluster.brokers):
            raise CommandFailed("no broker is left")
        time.sleep(WATCH_INTERVAL_S)


def _stop(cluster: "EmbeddedCluster") -> None:
    try:
        complaints = cluster.stop()
    except _Stop:  # asked twice: no more patience
        cluster.kill()
        raise CommandFailed("stopped by force") from None
    if complaints:
        raise CommandFailed("; ".join(complaints))
