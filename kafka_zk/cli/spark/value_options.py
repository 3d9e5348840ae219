"""The options of ``kafka-zk extract`` for schema registries, dead letters, columns, rows, masks, and rounds."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kafka_zk.spark_jobs.extraction.columns import INCLUDED
from kafka_zk.spark_jobs.extraction.database.name_templates import is_file_per_table
from kafka_zk.spark_jobs.extraction.decoding import read_schema
from kafka_zk.spark_jobs.extraction.keys import KEY_FORMATS
from kafka_zk.spark_jobs.extraction.masking import HMAC, KINDS, read_key
from kafka_zk.spark_jobs.values.value_decoder import VALUE_FORMATS

_INTERVAL = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


class _Interval(click.ParamType[float]):
    """``30s``, ``5m``, ``1h``, ``500ms``; in seconds."""

    name = "interval"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        matched = _INTERVAL.fullmatch(value)
        if matched is None:
            self.fail(f"{value!r} is not an interval such as 30s, 5m or 1h", param, ctx)
        return float(matched[1]) * _SECONDS[matched[2]]


every_option = click.option(
    "--every", "every_s", type=_Interval(), metavar="INTERVAL", help="Repeat until SIGTERM at this interval, like 5m."
)
metrics_option = click.option(
    "--metrics-port", type=click.IntRange(0, 65535), help="With --every: /metrics for Prometheus; 0 is a free port."
)


def schema_text(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """TEXT, or the content of @FILE; unchanged if the name of the file has a placeholder for a table."""
    if text and is_file_per_table(text):
        return text
    try:
        return text and read_schema(text)
    except OSError as error:
        raise click.BadParameter(f"{error.filename}: {error.strerror}") from error


def _mask_key(context: click.Context, parameter: click.Parameter, path: Path | None) -> bytes | None:
    try:
        return None if path is None else read_key(path)
    except OSError as error:
        raise click.BadParameter(f"{error.filename}: {error.strerror}") from error


_OPTIONS = (
    click.option(
        "--key-format",
        type=click.Choice(KEY_FORMATS),
        metavar="FORMAT",
        help=f"What keys are: {', '.join(KEY_FORMATS)}.  [default: string; bytes if values stay bytes]",
    ),
    click.option(
        "--key-schema",
        callback=schema_text,
        metavar="TEXT|@FILE",
        help="DDL for json keys, or the schema of avro keys; with --schema-registry, the reader's schema.",
    ),
    click.option(
        "--metadata-prefix",
        default="",
        metavar="TEXT",
        help="Prefix for the names of the columns that do not come from the value, such as _kafka_.",
    ),
    click.option(
        "--value-format",
        type=click.Choice(VALUE_FORMATS),
        help="Decode values of Confluent's serializers with the schema that each value names.",
    ),
    click.option("--schema-registry", metavar="URL", help="Where the schemas are, as http://HOST:8081."),
    click.option("--dead-letter-topic", metavar="TOPIC", help="Send undecodable records to it, with the reason."),
    click.option("--include", multiple=True, type=click.Choice(INCLUDED), help="One more column; may be repeated."),
    click.option("--select", metavar="SQL", help="The columns to write: 'carrier, delay * 60 AS seconds'."),
    click.option("--where", metavar="SQL", help="Which records are written: 'delay > 0'."),
    click.option(
        "--mask",
        multiple=True,
        metavar="COLUMN=KIND",
        help=f"Hide a column's values from the target: {', '.join(KINDS)}; may be repeated.",
    ),
    click.option(
        "--mask-key-file",
        "mask_key",
        type=click.Path(path_type=Path, dir_okay=False),
        callback=_mask_key,
        help=f"The secret key of --mask COLUMN={HMAC}.",
    ),
)


def value_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options' names are fields of ``Extraction``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
