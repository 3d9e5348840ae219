"""Gives a command access to a cluster, through brokers or directly in ZooKeeper."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import click
from click.core import ParameterSource

T = TypeVar("T")


def open_access(
    bootstrap: str, zookeeper: str | None, of_broker: Callable[[Any], T], of_zookeeper: Callable[[Any], T]
) -> AbstractContextManager[T]:
    """Call ``of_zookeeper`` with a client if the options name ZooKeeper, otherwise ``of_broker`` with an admin client.

    Raises: UsageError; the context raises CommandFailed, KafkaError, RegistryError.
    """
    if zookeeper is None:
        return through_broker(bootstrap, of_broker)
    if click.get_current_context().get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE:
        raise click.UsageError("give --bootstrap-server or --zookeeper, not both")
    return through_zookeeper(zookeeper, of_zookeeper)


@contextlib.contextmanager
def through_broker(bootstrap: str, make: Callable[[Any], T]) -> Iterator[T]:
    from kafka_zk.cli.terminal.brokers import broker_admin

    with broker_admin(bootstrap) as admin:
        yield make(admin)


@contextlib.contextmanager
def through_zookeeper(servers: str, make: Callable[[Any], T]) -> Iterator[T]:
    from kafka_zk.cli.terminal.zookeeper_client import zookeeper_client

    with zookeeper_client(servers) as client:
        yield make(client)
