"""Gathers the facts about a cluster for one command."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka_zk.cli.terminal.command_config import secured
from kafka_zk.cli.terminal.options import (
    BOOTSTRAP_VARIABLE,
    ZOOKEEPER_VARIABLE,
    bootstrap_servers_option,
    zookeeper_option,
)
from kafka_zk.cli.terminal.properties import read_properties
from kafka_zk.cli.terminal.waiting import waiting

if TYPE_CHECKING:
    from kafka_zk.migration.facts import ClusterFacts, Fact, Node, Quorum, ZooKeeperFacts
    from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient

_TIMEOUT_MS = 3_000
_LONGEST_S = 60
_OBSERVED_MS = 5_000
"""In dual write ``/migration`` changes about twice a second."""
_STEP_MS = 200

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


def sources(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where facts come from, as the parameters of ``Sources``."""
    options = (
        zookeeper_option("The cluster's ZooKeeper.", envvar=ZOOKEEPER_VARIABLE),
        bootstrap_servers_option("Brokers to ask first.", envvar=BOOTSTRAP_VARIABLE, show_envvar=True),
        click.option(
            "--server-properties", "broker_files", type=_FILE, multiple=True, help="A broker's server.properties; "
            "repeatable.",
        ),
        click.option(
            "--controller-properties", "controller_files", type=_FILE, multiple=True, help="A controller's properties; "
            "repeatable.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


@dataclass(frozen=True)
class Sources:
    """Raises: UsageError if there is nothing to read."""

    zookeeper: str | None
    bootstrap: str | None
    broker_files: Sequence[Path]
    controller_files: Sequence[Path]
    log_dirs: Sequence[Path] = ()

    def __post_init__(self) -> None:
        if self.zookeeper is None and self.bootstrap is None:
            raise click.UsageError("give --zookeeper, --bootstrap-server or both")

    @contextmanager
    def opened(self) -> Iterator["KazooBlockingClient | None"]:
        """The client for ``gather``. Raises CommandFailed, RegistryError."""
        from kafka_zk.cli.terminal.zookeeper_client import zookeeper_client

        with nullcontext() if self.zookeeper is None else zookeeper_client(self.zookeeper) as client:
            yield client


def gather(sources: Sources, client: "KazooBlockingClient | None") -> "ClusterFacts":
    """Looks for some seconds whether a controller writes to ZooKeeper, if one may. Raises CommandFailed, RegistryError.
    """
    from kafka_zk.cli.migration.log_dirs import read_log_dir
    from kafka_zk.migration.facts import ClusterFacts
    from kafka_zk.migration.zookeeper_collector import collect, not_read
    from kafka_zk.registry.client.kazoo_blocking import run_blocking

    zookeeper = not_read() if client is None else run_blocking(collect(client))
    broker_files, controller_files = _read(sources.broker_files), _read(sources.controller_files)
    brokers, controllers, quorum = _ask(sources.bootstrap, zookeeper, broker_files, controller_files)
    if client is not None:
        zookeeper = _observed(zookeeper, client)
    return ClusterFacts(
        zookeeper, brokers, controllers, quorum, broker_files, controller_files,
        tuple(read_log_dir(path) for path in sources.log_dirs),
    )  # fmt: skip


def _read(paths: Sequence[Path]) -> dict[str, dict[str, str | None]]:
    return {str(path): dict(read_properties(path)) for path in paths}


def _ask(
    bootstrap: str | None,
    zookeeper: "ZooKeeperFacts",
    broker_files: Mapping[str, Mapping[str, str | None]],
    controller_files: Mapping[str, Mapping[str, str | None]],
) -> "tuple[Fact[tuple[Node, ...]], Fact[tuple[Node, ...]], Fact[Quorum]]":
    from kafka_zk.clients.connection.config import ClientConfig
    from kafka_zk.clients.connection.reactor_thread import reactor_thread
    from kafka_zk.migration.cluster_collector import NOT_ASKED, ask_brokers, ask_controllers
    from kafka_zk.migration.facts import Unknown
    from kafka_zk.migration.node_collector import NodeCollector

    where: dict[str, Any] = {} if bootstrap is None else {"bootstrap_servers": bootstrap}
    config = ClientConfig(
        **where, **secured(), request_timeout_ms=_TIMEOUT_MS, socket_connection_setup_timeout_ms=_TIMEOUT_MS
    )
    thread = reactor_thread()
    registered = () if isinstance(zookeeper.registered, Unknown) else zookeeper.registered

    async def ask() -> Any:
        collector = NodeCollector(thread.reactor, config)
        try:
            addresses = NOT_ASKED if bootstrap is None else await collector.addresses()
            brokers = await ask_brokers(collector, addresses, registered, broker_files)
            return brokers, *await ask_controllers(collector, brokers, broker_files, controller_files)
        finally:
            await collector.close()

    with waiting("the brokers and controllers", _LONGEST_S):
        found: tuple[Fact[tuple[Node, ...]], Fact[tuple[Node, ...]], Fact[Quorum]] = thread.call(
            ask, timeout_s=_LONGEST_S
        )
    return found


def _observed(zookeeper: "ZooKeeperFacts", client: "KazooBlockingClient") -> "ZooKeeperFacts":
    from kafka_zk.migration.facts import Unknown
    from kafka_zk.migration.zookeeper_collector import read_migration
    from kafka_zk.registry.client.kazoo_blocking import run_blocking

    first = zookeeper.migration
    if isinstance(first, Unknown) or first is None or not first.is_copied:
        return zookeeper
    with waiting("a change of /migration", _OBSERVED_MS / 1000):
        for _ in range(_OBSERVED_MS // _STEP_MS):
            now = run_blocking(read_migration(client))
            if now != first:
                return replace(zookeeper, migration=now, is_written=True)
            client.process(_STEP_MS)
    return replace(zookeeper, is_written=False)
