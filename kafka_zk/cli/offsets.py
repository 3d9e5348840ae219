"""``kafka-zk offsets``: the first and last offsets of partitions."""

from collections.abc import Mapping
from typing import Any

import click

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.terminal.durations import parse_time_ms
from kafka_zk.cli.terminal.options import PARTITION, bootstrap_option, json_option
from kafka_zk.cli.terminal.output import print_rows

COLUMNS = ("topic", "partition", "earliest", "latest", "records")


@click.command("offsets", short_help="Show the first and last offsets of partitions, or those at a time.")
@click.option("--topic", "wanted", multiple=True, help="May be repeated; all topics by default.")
@click.option("--partition", "numbers", type=PARTITION, multiple=True, help="May be repeated; all by default.")
@click.option("--time", help="Also the first offset at or after this: ms since the epoch, a time, or max-timestamp.")
@bootstrap_option
@json_option
def command(wanted: tuple[str, ...], numbers: tuple[int, ...], time: str | None, bootstrap: str, as_json: bool) -> None:
    """Show for each partition the first offset, the log end offset, and the number of offsets between.

    \b
    kafka-zk offsets --topic t
    kafka-zk offsets --topic t --time 2026-11-21T06:00Z
    """
    from kafka_zk.cli.terminal.brokers import broker_admin, check_topics
    from kafka_zk.clients.connection.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP

    with broker_admin(bootstrap) as admin:
        check_topics(admin, wanted)
        topics = admin.describe_topics(list(wanted) or None)
        partitions = [
            TopicPartition(name, each.partition)
            for name, topic in sorted(topics.items())
            for each in topic.partitions
            if not numbers or each.partition in numbers
        ]
        earliest, latest = (_ask(admin, partitions, spec) for spec in (EARLIEST, LATEST))
        at_time = None
        if time is not None:
            at_time = _ask(admin, partitions, MAX_TIMESTAMP if time == "max-timestamp" else parse_time_ms(time))
    rows = [_row(tp, earliest[tp].offset, latest[tp].offset, at_time) for tp in partitions]
    print_rows([*COLUMNS, "at_time", "timestamp"] if time is not None else COLUMNS, rows, as_json)


def _ask(admin: Any, partitions: list[TopicPartition], spec: int) -> Any:
    return admin.list_offsets(dict.fromkeys(partitions, spec)) if partitions else {}


def _row(tp: TopicPartition, earliest: int, latest: int, at_time: Mapping[Any, Any] | None) -> dict[str, Any]:
    row = {
        "topic": tp.topic,
        "partition": tp.partition,
        "earliest": earliest,
        "latest": latest,
        "records": latest - earliest,
    }
    if at_time is not None:
        found = at_time[tp]
        row["at_time"] = found.offset if found.offset >= 0 else None
        row["timestamp"] = found.timestamp_ms if found.timestamp_ms >= 0 else None
    return row
