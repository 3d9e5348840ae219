"""``kafka-zk watch``: a live timeline of a group's rebalances."""

import json
import sys
import time
from pathlib import Path

import click

from kafka_zk.broker.signals import interrupt_at_the_end
from kafka_zk.cli.options import group_option, json_option, zookeeper_option

POLL_MS = 100


@click.command("watch", short_help="Follow a group's rebalances live: watches, claims, who stopped for how long.")
@group_option("The group to follow; it need not be there yet.")
@zookeeper_option("Where the group is.  [default: 127.0.0.1:2181]", envvar="KAFKA_ZK_ZOOKEEPER")
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    help="The file or directory that members write with consume --trace; it need not exist yet.",
)
@click.option("--rebalances", type=click.IntRange(1), help="Stop after this many rebalances.")
@click.option("--timeout-ms", type=click.IntRange(1), help="Stop after this time.")
@json_option
def command(
    group: str,
    zookeeper: str | None,
    trace: Path | None,
    rebalances: int | None,
    timeout_ms: int | None,
    as_json: bool,
) -> None:
    """Print what happens in a group, as it happens, with seconds since the first line, and a summary per rebalance.

    There are two kinds of lines. Those of the "observer" are what this command sees in ZooKeeper: members, owners,
    assignments, and its own watches on them. It sees every lasting change; two changes between two reads look like one.
    The rest only the members know: their watches, why they rebalance, when they stop and deliver, their requests to
    ZooKeeper. Start members with --trace, on this machine or on a shared file system, and give the same path here.
    Summaries need the traces of all members; times come from the members' own clocks. Members of other kinds (a Scala
    consumer, say) write no trace.

    \b
    kafka-zk consume --group g --topic t --trace /tmp/g &
    kafka-zk watch --group g --trace /tmp/g
    """
    from kafka_zk.cli.zk import DEFAULT_ZOOKEEPER, zookeeper_session
    from kafka_zk.timeline.group_observer import GroupObserver
    from kafka_zk.timeline.timeline import Timeline
    from kafka_zk.timeline.trace_file import Traced, TraceFollower

    interrupt_at_the_end()
    timeline = Timeline(group)
    follower = TraceFollower(trace) if trace is not None else None

    def show(now_ms: int | None) -> None:
        if follower is not None:
            for traced in follower.read():
                timeline.add(traced)
        if as_json:
            for document in timeline.documents(now_ms):
                click.echo(json.dumps(document))
        else:
            for line in timeline.lines(now_ms):
                click.echo(line)
        sys.stdout.flush()

    with zookeeper_session(zookeeper or DEFAULT_ZOOKEEPER) as client:
        end_s = time.monotonic() + timeout_ms / 1000 if timeout_ms is not None else float("inf")
        observer = GroupObserver(client, group, lambda event: timeline.add(Traced(event, None)))
        try:
            while time.monotonic() < end_s and not (rebalances and len(timeline.summaries) >= rebalances):
                client.process(POLL_MS)
                show(int(time.time() * 1000))
        finally:
            observer.close()
            show(None)
