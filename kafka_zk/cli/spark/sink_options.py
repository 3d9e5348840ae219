"""The options of ``kafka-zk extract`` for stores and tables."""

from collections.abc import Callable
from typing import Any

import click

from kafka_zk.spark_jobs.cdc.changes import MODES

packages_option = click.option(
    "--packages", metavar="GROUP:NAME:VERSION[,...]", help="Jars that Spark fetches from Maven Central."
)
_OPTIONS = (
    click.option(
        "--partition-by", multiple=True, metavar="TERM", help="A column, or days(COLUMN) and the like; may be repeated."
    ),
    click.option(
        "--cdc",
        type=click.Choice(MODES),
        help="Merge upserts and deletes into a table by key: Debezium's events, or rows and tombstones.",
    ),
    click.option("--merge-schema", is_flag=True, help="New columns are added to the table (delta, iceberg)."),
    click.option(
        "--widen",
        is_flag=True,
        help="Types may be widened: INT to BIGINT, FLOAT to DOUBLE, decimals (parquet, delta, iceberg).",
    ),
    click.option(
        "--target-file-size",
        "target_file_bytes",
        type=click.IntRange(1),
        callback=lambda context, parameter, mebibytes: mebibytes and mebibytes << 20,
        metavar="MIB",
        help="Write files of about this size; costs a shuffle.  [default: a file for each task]",
    ),
    packages_option,
)


def sink_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``packages`` is for ``with_packages``, the others are fields of ``Extraction``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def with_packages(config: dict[str, str], packages: str | None) -> dict[str, str]:
    return {**config, "spark.jars.packages": packages} if packages else config
