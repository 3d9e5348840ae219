"""``kafka-zk tier``: examines and repairs tiered storage."""

import click

from kafka_zk.cli.terminal.command_group import CommandGroup
from kafka_zk.cli.tier.check import check


@click.group("tier", cls=CommandGroup, short_help="Examine tiered storage: the bucket against the metadata.")
def command() -> None:
    """Examine the tiered storage (KIP-405) of an Apache Kafka cluster. Nothing is changed without --execute.

    \b
    kafka-zk tier check --storage s3://bucket/prefix/ --bootstrap-server b1:9092
    """


command.add_command(check)
