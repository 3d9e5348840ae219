"""The option ``--type``: a broker coordinates the group, or its members do through ZooKeeper."""

import click
from click.core import ParameterSource

from kafka_zk.cli.terminal.options import Decorator

GROUP_TYPES = ("broker", "zookeeper")


def group_type_option(help_text: str) -> Decorator:
    return click.option("--type", "group_type", type=click.Choice(GROUP_TYPES), help=help_text)


def is_of_broker(group_type: str | None) -> bool:
    """True if a broker coordinates the group: --type decides, otherwise the server on the command line.

    Environment variables do not count.
    """
    if group_type is not None:
        return group_type == "broker"
    context = click.get_current_context()
    at_broker, at_zookeeper = (
        context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in ("bootstrap", "zookeeper")
    )
    if at_broker and at_zookeeper:
        raise click.UsageError("with --group, give --bootstrap-server or --zookeeper, or say --type broker|zookeeper")
    return at_broker
