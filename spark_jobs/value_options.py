"""The options of ``kafka-zk extract`` about values by a schema registry, dead letters, columns and rows."""

from collections.abc import Callable
from typing import Any

import click

from kafka_zk.spark_jobs.extraction.columns import INCLUDED
from kafka_zk.spark_jobs.wire.value_decoder import VALUE_FORMATS

_OPTIONS = (
    click.option(
        "--value-format",
        type=click.Choice(VALUE_FORMATS),
        help="Values framed by Confluent's serializers, by the schema that each names.",
    ),
    click.option("--schema-registry", metavar="URL", help="Where the schemas are, as http://HOST:8081."),
    click.option("--dead-letter-topic", metavar="TOPIC", help="Send undecodable records there, with the reason."),
    click.option("--include", multiple=True, type=click.Choice(INCLUDED), help="One more column; may be repeated."),
    click.option("--select", metavar="SQL", help="What is written of the columns: 'carrier, delay * 60 AS seconds'."),
    click.option("--where", metavar="SQL", help="Which records are written: 'delay > 0'."),
)


def value_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator; the options' names are fields of ``Extraction``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
