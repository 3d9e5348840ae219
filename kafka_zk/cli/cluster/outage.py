"""``kafka-zk outage``: reconstruct an outage of an Apache Kafka cluster from its files and logs, as lines of text."""

import json
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click

from kafka_zk.cli.cluster.outage_logs import LogOptions, OutageLogs, outage_log_options
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import json_option

if TYPE_CHECKING:
    from kafka_zk.base.events import Event


@click.command("outage", short_help="Reconstruct an outage step by step from logs of ZooKeeper and Kafka's brokers.")
@outage_log_options
@json_option
def command(logs: LogOptions, as_json: bool) -> None:
    """Show from logs what happened to an Apache Kafka cluster: whose session ended and why, how long the controller and
    each leader were gone, changes of ISRs, who left a group and why, and the phases of a migration to KRaft.

    No server needs to run, and nothing is written. It reads files of ZooKeeper 3.4 to 3.9, and logs of Kafka up to 3.9
    in the layout of its own log4j.properties. ZooKeeper's files have no time zone; all times are shown in
    --log-time-zone.

    \b
    kafka-zk outage --zookeeper-log /var/lib/zookeeper
    kafka-zk outage --zookeeper-log zk-copy --broker-logs logs-copy --log-time-zone UTC
    kafka-zk outage --broker-logs /var/log/kafka --json | grep '"member '

    A line begins with its time and its source: "znodes" is ZooKeeper's log, "broker 2" is that broker's log. kafka-zk
    web with the same options shows the same on a page, with all znodes at every moment.
    """
    if not logs.is_given:
        raise click.UsageError("name --zookeeper-log, --broker-logs or both")
    opened = logs.open()
    try:
        for line in _json_lines(opened) if as_json else _text_lines(opened, logs.zone):
            click.echo(line)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise CommandFailed(f"the logs cannot be read: {error}") from error
    sys.stdout.flush()
    opened.note_problems()


def _events(opened: OutageLogs) -> "Iterator[list[Event]]":
    """Lists of events by time."""
    from kafka_zk.recorder.web.outage_logs import batches

    for batch in batches(opened.source, opened.logs, is_over=True):
        yield sorted(batch.events, key=lambda event: event.time_ms)


def _json_lines(opened: OutageLogs) -> Iterator[str]:
    from kafka_zk.recorder.timeline.event_codec import encode

    return (json.dumps(encode(event), ensure_ascii=False) for events in _events(opened) for event in events)


def _text_lines(opened: OutageLogs, zone: ZoneInfo | None) -> Iterator[str]:
    from kafka_zk.recorder.timeline.cluster_lines import ClusterEvents, ClusterLines

    waiting = ClusterEvents()
    lines = ClusterLines(waiting, verbose=False, time_text=lambda time_ms: _time_text(time_ms, zone))
    for events in _events(opened):
        for event in events:
            waiting.add(event)
        if events:
            yield from lines.lines(events[-1].time_ms)
    yield from lines.lines()


def _time_text(time_ms: int, zone: ZoneInfo | None) -> str:
    """A time beyond the range of ``datetime`` is shown in milliseconds."""
    try:
        return f"{datetime.fromtimestamp(time_ms // 1000, zone):%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03}"
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
