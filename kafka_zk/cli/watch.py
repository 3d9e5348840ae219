"""``kafka-zk watch``: a group's rebalances, live."""

import importlib.util
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka_zk.broker.process.signals import interrupt_at_the_end
from kafka_zk.cli.groups.group_type import group_type_option, is_of_broker
from kafka_zk.cli.terminal.options import bootstrap_option, json_option, zookeeper_option
from kafka_zk.cli.terminal.output import note

if TYPE_CHECKING:
    from kafka_zk.cli.groups.watched_group import WatchedGroup
    from kafka_zk.cli.watch_show import Show

POLL_MS = 100


@click.command("watch", short_help="Follow a group's rebalances live, or the brokers: why, what moved, who did what.")
@click.option("--group", help="The group to follow; it need not be there yet.")
@click.option("--cluster", is_flag=True, help="Follow brokers, controller, leaders and ISRs instead of a group.")
@zookeeper_option("Where a ZooKeeper group is.  [default: 127.0.0.1:2181]", envvar="KAFKA_ZK_ZOOKEEPER")
@bootstrap_option
@group_type_option("Who coordinates the group, see below.")
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    help="The file or directory that members (consume --trace) or brokers (up --trace) write; it need not exist yet.",
)
@click.option("--rebalances", type=click.IntRange(1), help="Stop after this many rebalances.")
@click.option("--timeout-ms", type=click.IntRange(1), help="Stop after this time.")
@click.option("-v", "--verbose", is_flag=True, help="Print every step: watches, reads, claims; joins and heartbeats.")
@json_option
def command(
    group: str | None,
    cluster: bool,
    zookeeper: str | None,
    bootstrap: str,
    group_type: str | None,
    trace: Path | None,
    rebalances: int | None,
    timeout_ms: int | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Print one line for each rebalance of a group as it happens: cause, moves, duration, requests.

    At the end it prints a picture, partitions by time: who delivered what, and where no member did. On a terminal, a
    live screen below the lines shows each member with its partitions, its lag, and its last action.

    \b
    13:02:11  dora joined: anna→dora t-1; 3 never stopped; silent 15 ms; 23 requests
    13:02:40  the session of ben ended: ben→anna t-2; 3 never stopped; silent 9 ms; 14 requests

    For a ZooKeeper group, this command sees members, owners and assignments. It sees every lasting change; two
    changes between two reads look like one. Only the members know why they rebalance, when they stop and deliver, and
    their requests. Start members with --trace, on this machine or on a shared file system, and give the same path here.
    Times come from the members' own clocks. A member that dies is silent from its death, but its silence counts only
    from the end of its session. Members of other kinds (for example a Scala consumer) write no trace; only their owner
    znodes show.

    With the option --bootstrap-server, or --type broker, it follows a group that a broker coordinates, also Apache
    Kafka's. It sees the group's state, and each generation's members and assignments in __consumer_offsets. Only the
    coordinator knows who left, whose session expired, who rejoined when, and the requests. Our brokers write it with
    --trace (up --trace, broker --trace). A partition counts as silent from when its member rejoins without it until the
    next assignment is stored; without traces, from when the rebalance was seen.

    \b
    kafka-zk consume --group g --name anna --topic t --trace /tmp/g &
    kafka-zk watch --group g --trace /tmp/g
    kafka-zk watch --group h --bootstrap-server 127.0.0.1:9092

    With --cluster it shows what happens to brokers and partitions, step by step: which znode changed, whose watch
    fired, who read it again and what they wrote, which requests went where, which client was denied what, by which
    ACL; with -v who is connected as whom, and whom quotas throttle. Without traces it shows the znodes alone;
    the traces of a kafka-zk up on this machine are found without --trace.

    \b
    kafka-zk up --trace ./trace
    kafka-zk watch --cluster
    """
    if cluster == (group is not None):
        raise click.UsageError("watch needs either --group or --cluster")
    interrupt_at_the_end()
    timeout_s = float("inf") if timeout_ms is None else timeout_ms / 1000
    if group is None:
        from kafka_zk.cli.cluster.watch_cluster import watch_cluster

        watch_cluster(zookeeper, trace, timeout_s, verbose=verbose, as_json=as_json)
        return
    from kafka_zk.cli.groups.watched_group import broker_group, zookeeper_group

    watched = broker_group(bootstrap, group) if is_of_broker(group_type) else zookeeper_group(zookeeper, group)
    with watched as seen:
        show = _show(group, seen, verbose=verbose, as_json=as_json)
        _watch_group(group, seen, show, trace, rebalances or sys.maxsize, timeout_s)


def _watch_group(
    group: str, seen: "WatchedGroup", show: "Show", trace: Path | None, rebalances: int, timeout_s: float
) -> None:
    from kafka_zk.recorder.timeline.trace_file import TraceFollower

    follower = TraceFollower(trace) if trace is not None else None

    def read() -> None:
        for traced in follower.read() if follower is not None else ():
            seen.timeline.add(traced)

    end_s = time.monotonic() + timeout_s
    with ExitStack() as cleanup:
        cleanup.callback(show.close)
        cleanup.callback(read)
        cleanup.callback(seen.close)
        if seen.has_no_members and not sys.stdout.isatty():
            note(f"waiting for members of group {group}")
        while time.monotonic() < end_s and len(seen.timeline.summaries) < rebalances:
            seen.poll(POLL_MS)
            read()
            show.tell(int(time.time() * 1000))


def _show(group: str, seen: "WatchedGroup", *, verbose: bool, as_json: bool) -> "Show":
    from kafka_zk.cli.watch_show import JsonLines, LiveScreen, TextLines

    if as_json:
        return JsonLines(seen.timeline)
    if sys.stdout.isatty() and _has_rich():
        return LiveScreen(group, seen.timeline, seen.lag_meter(), verbose=verbose)
    return TextLines(group, seen.timeline, verbose=verbose)


def _has_rich() -> bool:
    if importlib.util.find_spec("rich"):
        return True
    note("printing lines, because the live screen needs rich: pip install 'kafka-zk[terminal]'")
    return False
