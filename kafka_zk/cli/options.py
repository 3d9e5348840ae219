"""Options that several commands share, named as Kafka's tools name them."""

from collections.abc import Callable
from typing import Any

import click

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

bootstrap_option: Decorator = click.option(
    "--bootstrap-server",
    "bootstrap",
    metavar="HOST:PORT[,...]",
    envvar="KAFKA_ZK_BOOTSTRAP",
    default=DEFAULT_BOOTSTRAP,
    show_default=True,
    help="Brokers to ask first.",
)


def zookeeper_option(help_text: str, envvar: str | None = None) -> Decorator:
    """``--zookeeper HOST:PORT[,…][/chroot]``; with ``envvar`` only where it does not change what the command does."""
    return click.option("--zookeeper", metavar="HOST:PORT[,...][/CHROOT]", envvar=envvar, help=help_text)
