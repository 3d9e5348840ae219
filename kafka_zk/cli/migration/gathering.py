"""Gathers the facts about a cluster for one command."""

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

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
from kafka_zk.clients.connection.errors import KafkaTimeoutError
from kafka_zk.migration.facts import ClusterFacts, Fact, Node, Quorum, Unknown, ZooKeeperFacts

if TYPE_CHECKING:
    from kafka_zk.migration.metadata.replay import MetadataLog
    from kafka_zk.migration.node_collector import Address, NodeCollector
    from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient

T = TypeVar("T")
Files = Mapping[str, Mapping[str, str | None]]
"""Path -> server.properties."""

_TIMEOUT_MS = 3_000
_LONGEST_S = 60
_OBSERVED_MS = 5_000
"""In dual write ``/migration`` changes about twice a second."""
_STEP_MS = 200

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


controller_log_dir_option = click.option(
    "--controller-log-dir", type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="A controller's log.dirs folder, with its metadata log. Default: the log is fetched from the controllers.",
)  # fmt: skip


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


def gather(sources: Sources, client: "KazooBlockingClient | None") -> ClusterFacts:
    """Takes a few seconds, to observe whether a controller writes. Raises CommandFailed, KafkaError, RegistryError."""
    from kafka_zk.cli.migration.log_dirs import read_log_dir
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


def _read(paths: Sequence[Path]) -> Files:
    return {str(path): dict(read_properties(path)) for path in paths}


def _ask(
    bootstrap: str | None, zookeeper: ZooKeeperFacts, broker_files: Files, controller_files: Files
) -> tuple[Fact[tuple[Node, ...]], Fact[tuple[Node, ...]], Fact[Quorum]]:
    from kafka_zk.migration.cluster_collector import ask_brokers, ask_controllers

    registered = () if isinstance(zookeeper.registered, Unknown) else zookeeper.registered

    async def ask(collector: "NodeCollector", addresses: "Fact[Mapping[int, Address]]") -> Any:
        brokers = await ask_brokers(collector, addresses, registered, broker_files)
        return brokers, *await ask_controllers(collector, zookeeper, brokers, broker_files, controller_files)

    found: tuple[Fact[tuple[Node, ...]], Fact[tuple[Node, ...]], Fact[Quorum]] = _collected(bootstrap, ask)
    return found


def _collected(
    bootstrap: str | None, ask: "Callable[[NodeCollector, Fact[Mapping[int, Address]]], Coroutine[Any, Any, T]]"
) -> T:
    """Run ``ask`` with a collector and the brokers' addresses, and return its result."""
    from kafka_zk.clients.connection.config import ClientConfig
    from kafka_zk.clients.connection.reactor_thread import reactor_thread
    from kafka_zk.migration.cluster_collector import NOT_ASKED
    from kafka_zk.migration.node_collector import NodeCollector

    where: dict[str, Any] = {} if bootstrap is None else {"bootstrap_servers": bootstrap}
    config = ClientConfig(
        **where, **secured(), request_timeout_ms=_TIMEOUT_MS, socket_connection_setup_timeout_ms=_TIMEOUT_MS
    )
    thread = reactor_thread()

    async def work() -> T:
        collector = NodeCollector(thread.reactor, config)
        try:
            return await ask(collector, NOT_ASKED if bootstrap is None else await collector.addresses())
        finally:
            await collector.close()

    with waiting("the brokers and controllers", _LONGEST_S):
        return thread.call(work, timeout_s=_LONGEST_S)


def read_metadata_log(
    sources: Sources, folder: Path | None, brokers: Fact[tuple[Node, ...]] | None = None
) -> "Fact[MetadataLog]":
    """From ``folder``, or else from the controllers that configurations name. ``brokers``: None if they must be asked
    first. Raises CommandFailed."""
    from kafka_zk.migration.cluster_collector import ask_brokers, controller_addresses
    from kafka_zk.migration.metadata.log_folder import read_folder
    from kafka_zk.migration.metadata.replay import UnreadableMetadata

    if folder is not None:
        try:
            return read_folder(folder)
        except UnreadableMetadata as error:
            return Unknown(str(error), "a whole folder of a controller, and the rights of its user")
    broker_files, controller_files = _read(sources.broker_files), _read(sources.controller_files)

    async def ask(collector: "NodeCollector", addresses: "Fact[Mapping[int, Address]]") -> "Fact[MetadataLog]":
        described = await ask_brokers(collector, addresses, (), broker_files) if brokers is None else brokers
        controllers = await controller_addresses(collector, described, broker_files, controller_files)
        return controllers if isinstance(controllers, Unknown) else await collector.metadata_log(controllers)

    try:
        return _collected(sources.bootstrap if brokers is None else None, ask)
    except KafkaTimeoutError:
        return Unknown(f"the metadata log could not be fetched within {_LONGEST_S} s", "--controller-log-dir")


def _observed(zookeeper: ZooKeeperFacts, client: "KazooBlockingClient") -> ZooKeeperFacts:
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
