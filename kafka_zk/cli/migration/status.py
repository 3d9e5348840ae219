"""``kafka-zk migration status``: how far a migration to KRaft has got, and whether the next step is safe."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka_zk.base.clock import wall_ms
from kafka_zk.cli.migration.gathering import (
    Sources,
    controller_log_dir_option,
    gather,
    read_metadata_log,
    sources,
)
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.metrics_port import serve_metrics
from kafka_zk.cli.terminal.options import json_option
from kafka_zk.cli.terminal.output import print_json, say
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.migration.facts import LOG_NOT_READ, Fact, MigrationState, MigrationZnode, Unknown

if TYPE_CHECKING:
    from kafka_zk.migration.metrics import StatusMetrics
    from kafka_zk.migration.phase import Status
    from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient

_INTERVAL_S = 2


@click.command("status", short_help="Show the phase of the migration, and what is safe to do.")
@sources
@controller_log_dir_option
@click.option("--watch", "watches", is_flag=True, help="Show each change, until Ctrl-C.")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), help="Watch, and serve Prometheus metrics on this port, at "
    "/metrics; 0 is a free port.",
)  # fmt: skip
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="The address to serve the metrics on.")
@json_option
def status(
    zookeeper: str | None, bootstrap: str | None, broker_files: tuple[Path, ...], controller_files: tuple[Path, ...],
    controller_log_dir: Path | None, watches: bool, metrics_port: int | None, metrics_host: str, as_json: bool,
) -> None:  # fmt: skip
    """Show the phase of a migration to KRaft, the mode of each broker, what hinders the next step, and whether it is
    safe to roll back. Before each step, run "kafka-zk migration check" too: it finds traps that are not shown here.

    The phases: none, waiting (the controllers wait for brokers), copying, dual write, brokers moving, brokers moved,
    finalised, rolled back half-way. Each broker's mode comes from ApiVersions, which needs no permission. The metadata
    log confirms the phase: it is fetched from the controllers, which needs ClusterAction on Cluster, or read in a
    controller's folder.

    \b
    kafka-zk migration status --zookeeper zk:2181/kafka --bootstrap-server b1:9092
    kafka-zk migration status --zookeeper zk:2181/kafka --bootstrap-server b1:9092
        --watch --json
    kafka-zk migration status --zookeeper zk:2181/kafka --bootstrap-server b1:9092
        --metrics-port 9464
    """
    from kafka_zk.clients.connection.reactor_thread import reactor_thread

    given = Sources(zookeeper, bootstrap, broker_files, controller_files)
    metrics = None if metrics_port is None else _served(metrics_port, metrics_host)
    shown: Status | None = None
    with given.opened() as client:
        reader = _StatusReader(given, controller_log_dir, client)
        while True:
            found, znode, read_ms = reader.read() if not watches and metrics is None else reader.read_or_unknown()
            if metrics is not None:
                reactor_thread().run_soon(metrics.update, found, znode, read_ms)
            if found != shown:
                shown = found
                print_json(found.as_document()) if as_json else _show(found)
            if not watches and metrics is None:
                return
            time.sleep(_INTERVAL_S)


class _StatusReader:
    """Reads the metadata log only when its state may have changed or does not confirm the phase, because the log may be
    long.

    A read returns the status, ``/migration``, and when they were read, in ms since the epoch.
    """

    def __init__(self, given: Sources, folder: Path | None, client: "KazooBlockingClient | None") -> None:
        self._given = given
        self._folder = folder
        self._client = client
        self._signs: tuple[object, ...] = ()
        self._state: Fact[MigrationState] | None = None

    def read_or_unknown(self) -> "tuple[Status, Fact[MigrationZnode | None], int | None]":
        """Like ``read``. The status is unknown while the cluster cannot be examined."""
        from kafka_zk.migration.phase import unknown_status
        from kafka_zk.registry.client.errors import RegistryError

        try:
            return self.read()
        except (CommandFailed, KafkaError, RegistryError, OSError) as error:
            unknown = Unknown(str(error) or type(error).__name__, "a cluster that responds")
            return unknown_status(unknown), unknown, None

    def read(self) -> "tuple[Status, Fact[MigrationZnode | None], int]":
        """Raises CommandFailed, RegistryError, KafkaError."""
        from kafka_zk.migration.nodes import ready_controllers
        from kafka_zk.migration.phase import status as status_of

        state = LOG_NOT_READ if self._state is None else self._state
        facts = replace(gather(self._given, self._client), recorded_state=state)
        found = status_of(facts)
        signs = facts.zookeeper.is_written, ready_controllers(facts)
        if (found.phase, *signs) != self._signs or not found.confirmation.fits:
            log = read_metadata_log(self._given, self._folder, facts.brokers)
            self._state = log if isinstance(log, Unknown) else log.state
            facts = replace(facts, recorded_state=self._state)
            found = status_of(facts)
        self._signs = found.phase, *signs
        return found, facts.zookeeper.migration, wall_ms()


def _served(port: int, host: str) -> "StatusMetrics":
    """Raises CommandFailed."""
    from kafka_zk.migration.metrics import StatusMetrics

    metrics = StatusMetrics()
    serve_metrics(metrics.registry, port, host)
    return metrics


def _show(status: "Status") -> None:
    from kafka_zk.migration.phase import Phase

    unknown = isinstance(status.phase, Unknown)
    say(f"Phase: {'unknown' if unknown else status.phase}" + (f" ({status.sign})" if status.sign else ""))
    fits = status.confirmation.fits
    if fits is not None or status.phase is not Phase.NONE:
        said = {True: "yes", False: "no", None: "unknown"}[fits]
        say(f"Confirmed by the metadata log: {said}: {status.confirmation.text}")
    for broker_id, mode in status.brokers.items():
        said = f"unknown: {mode.reason}. Needed: {mode.remedy}" if isinstance(mode, Unknown) else f"{mode} mode"
        say(f"Broker {broker_id}: {said}")
    say(f"Safe to continue: {status.proceed}")
    say(f"Safe to roll back: {status.roll_back}")
