"""Access for commands that work through brokers, or directly in ZooKeeper if ``--zookeeper`` names it.

What only one of both needs is imported when it is chosen.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
    from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient

T = TypeVar("T")


def chosen_access(
    bootstrap: str,
    zookeeper: str | None,
    of_brokers: "Callable[[BlockingAdmin], T]",
    of_zookeeper: "Callable[[KazooBlockingClient], T]",
) -> contextlib.AbstractContextManager[T]:
    """Return the access that the command's options choose.

    Raises: UsageError if they name both; when the access is entered, CommandFailed, KafkaError, RegistryError.
    """
    if zookeeper is None:
        return through_broker(bootstrap, of_brokers)
    if click.get_current_context().get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE:
        raise click.UsageError("give --bootstrap-server or --zookeeper, not both")
    return through_zookeeper(zookeeper, of_zookeeper)


@contextlib.contextmanager
def through_broker(bootstrap: str, access: "Callable[[BlockingAdmin], T]") -> Iterator[T]:
    """Raises: KafkaError."""
    from kafka_zk.cli.terminal.brokers import broker_admin

    with broker_admin(bootstrap) as admin:
        yield access(admin)


@contextlib.contextmanager
def through_zookeeper(servers: str, access: "Callable[[KazooBlockingClient], T]") -> Iterator[T]:
    """Raises: CommandFailed, RegistryError."""
    from kafka_zk.cli.terminal.zookeeper_client import zookeeper_client

    with zookeeper_client(servers) as client:
        yield access(client)
