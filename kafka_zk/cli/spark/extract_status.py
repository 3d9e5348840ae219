"""``kafka-zk extract-status``: how far a group's extractions are. Spark is not needed."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

import click

from kafka_zk.base.clock import wall_ms
from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.terminal.command_config import command_config_option
from kafka_zk.cli.terminal.durations import time_text
from kafka_zk.cli.terminal.errors import CommandFailed, sentence
from kafka_zk.cli.terminal.metrics_port import serve_metrics
from kafka_zk.cli.terminal.options import group_option, json_option, zookeeper_option
from kafka_zk.cli.terminal.output import note, print_json, print_table, say
from kafka_zk.clients.connection.errors import KafkaError

if TYPE_CHECKING:
    from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient
    from kafka_zk.spark_jobs.extraction.status import GroupStatus, Observed, RunStatus
    from kafka_zk.spark_jobs.extraction.status_metrics import StatusMetrics

_COLUMNS = ("topic", "partition", "offset", "end_offset", "lag", "last_from", "last_until")
_HOST = "127.0.0.1"
_INTERVAL_S = 10
_TIMEOUT_MS = 30_000


class _Behind(CommandFailed):
    exit_code = 3


@click.command("extract-status", short_help="Show how far extractions are: lag, last range, unfinished plan.")
@zookeeper_option("The ZooKeeper of the group.  [default: 127.0.0.1:2181]", envvar="KAFKA_ZK_ZOOKEEPER")
@command_config_option
@group_option
@click.option("--topic", "topics", multiple=True, help="May be repeated; by default, all extracted topics.")
@click.option("--max-lag", type=click.IntRange(0), help="Exit with 3 if the group's total lag is greater.")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), help="Look every 10 s until Ctrl-C, and serve Prometheus metrics "
    "on this port, at /metrics; 0 is a free port.",
)  # fmt: skip
@click.option("--metrics-host", help="The address to serve the metrics on; 0.0.0.0 for all.  [default: 127.0.0.1]")
@json_option
def command(
    zookeeper: str | None, group: str, topics: tuple[str, ...], max_lag: int | None, metrics_port: int | None,
    metrics_host: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Show for each partition the offset that extract continues at, its lag, and its bounds in the last range; then
    when the last range was committed, how fast, and a plan that is not finished. It only reads, and starts no Spark.

    The lag is counted up to the last stable offset, where extract stops. A partition whose leader does not
    answer has an unknown lag, shown as -.

    Exit codes: 0 the status is shown, and the lag is at most --max-lag; 1 failed, or the lag of a partition is unknown
    and --max-lag is given; 2 wrong usage; 3 the lag is greater than --max-lag.

    \b
    kafka-zk extract-status --zookeeper 127.0.0.1:2181 --group lake
    kafka-zk extract-status --zookeeper 127.0.0.1:2181 --group lake --max-lag 100000 --json
    kafka-zk extract-status --zookeeper 127.0.0.1:2181 --group lake --metrics-port 9405
    """
    if metrics_host is not None and metrics_port is None:
        raise click.UsageError("--metrics-host needs --metrics-port")
    if metrics_port is not None:
        if max_lag is not None:
            raise click.UsageError("--max-lag is for one look, not for --metrics-port: alert on the metric instead")
        _serve(zookeeper, group, topics, _served(metrics_port, metrics_host or _HOST), as_json)
    status = _look(zookeeper, group, topics)
    print_json(status.as_document()) if as_json else _show(status)
    if max_lag is not None:
        _judge(status, max_lag)


def _judge(status: "GroupStatus", max_lag: int) -> None:
    """Raises CommandFailed."""
    if status.lag > max_lag:
        raise _Behind(f"the lag of group {status.group} is {status.lag:,}, more than {max_lag:,}")
    if status.unknown:
        first = status.unknown[0]
        raise CommandFailed(
            f"the lag of {len(status.unknown):,} of {len(status.partitions):,} partitions is unknown, for example of "
            f"{first.topic}-{first.partition}: {first.problem}"
        )


def _serve(
    zookeeper: str | None, group: str, topics: tuple[str, ...], metrics: "StatusMetrics", as_json: bool
) -> NoReturn:
    """Update the status until the process ends. A note reports a failure once, not each time it repeats."""
    from kafka_zk.clients.connection.reactor_thread import reactor_thread

    failure = ""
    shown: GroupStatus | None = None
    while True:
        status: GroupStatus | None = None
        try:
            status, told = _look(zookeeper, group, topics), ""
        except Exception as error:
            told = _told_failure(error)
        reactor_thread().run_soon(metrics.update, status, wall_ms())
        if told and told != failure:
            note(f"the status is unknown: {told}")
        if as_json and status is not None and status != shown:
            print_json(status.as_document())
        failure, shown = told, status
        time.sleep(_INTERVAL_S)


def _told_failure(error: Exception) -> str:
    """Raises the error if it is a bug."""
    told = error.format_message() if isinstance(error, CommandFailed) else sentence(error)
    if told is None:
        raise error
    return told


def _served(port: int, host: str) -> "StatusMetrics":
    """Raises CommandFailed."""
    from kafka_zk.spark_jobs.extraction.status_metrics import StatusMetrics

    metrics = StatusMetrics()
    serve_metrics(metrics.registry, port, host)
    return metrics


def _look(zookeeper: str | None, group: str, topics: tuple[str, ...]) -> "GroupStatus":
    """Raises CommandFailed, RegistryError, KafkaError."""
    from kafka_zk.cli.terminal.zookeeper_client import DEFAULT_ZOOKEEPER, zookeeper_client
    from kafka_zk.spark_jobs.extraction.status import status_of

    with zookeeper_client(zookeeper or DEFAULT_ZOOKEEPER) as client:
        return status_of(_observed(client, group, topics))


def _observed(client: "KazooBlockingClient", group: str, topics: tuple[str, ...]) -> "Observed":
    from kafka_zk.cli.groups.groups_in_zookeeper import registered_brokers
    from kafka_zk.registry.client.kazoo_blocking import run_blocking
    from kafka_zk.registry.consumers import ConsumerRegistry
    from kafka_zk.registry.offsets import OffsetRegistry
    from kafka_zk.registry.topics import TopicRegistry
    from kafka_zk.spark_jobs.extraction.hold import GroupHold
    from kafka_zk.spark_jobs.extraction.status import Observed

    hold = GroupHold(client, group, "")
    # The members first: a run writes everything before it leaves, so nothing is missing if no member is left.
    members = len(run_blocking(ConsumerRegistry(client, group).members()))
    written = run_blocking(hold.written_manifest())
    registry = OffsetRegistry(client, group)
    known = set(run_blocking(registry.partitions()))
    if written is not None:
        known.update(each.tp for each in written.manifest.ranges)
    wanted = set(topics) or {tp.topic for tp in known}
    if not wanted:
        raise CommandFailed(f"group {group} has neither offsets nor a plan in this ZooKeeper; see kafka-zk groups list")
    existing = run_blocking(TopicRegistry(client).assignments(sorted(wanted)))
    if missing := sorted(set(topics) - existing.keys() - {tp.topic for tp in known}):
        raise CommandFailed(f"there is no topic {missing[0]}")
    present = {TopicPartition(name, number) for name, each in existing.items() for number in each.partitions}
    partitions = sorted(present | {tp for tp in known if tp.topic in wanted})
    gone: dict[TopicPartition, int | str] = {tp: "there is no such partition" for tp in partitions if tp not in present}
    offsets = run_blocking(registry.fetch(partitions))
    starts, ends = _bounds(registered_brokers(client), sorted(present))
    return Observed(
        group=group,
        offsets={tp: each.offset for tp, each in offsets.items()},
        outdated=run_blocking(hold.outdated(sorted(present))),
        log_starts={**starts, **gone},
        log_ends={**ends, **gone},
        manifest=None if written is None else written.manifest,
        written_ms=0 if written is None else written.written_ms,
        members=members,
    )


def _bounds(
    servers: str, partitions: list[TopicPartition]
) -> tuple[dict[TopicPartition, int | str], dict[TopicPartition, int | str]]:
    """The logs' first offsets, and their last stable ones. For a partition whose request failed, the
    result is the error, so a partition without a leader delays no other. Raises KafkaError if no broker can be reached.
    """
    from kafka_zk.cli.terminal.brokers import broker_admin
    from kafka_zk.clients.connection.list_offsets import EARLIEST, LATEST, ListedOffset

    if not servers:
        raise CommandFailed("no broker is registered in this ZooKeeper")
    timeouts = {"default_api_timeout_ms": _TIMEOUT_MS, "request_timeout_ms": _TIMEOUT_MS}
    with broker_admin(servers, **timeouts) as admin:
        admin.list_topics()  # also finds the leaders
        starts = admin.try_offsets(dict.fromkeys(partitions, EARLIEST))
        ends = admin.try_offsets(dict.fromkeys(partitions, LATEST), read_committed=True)

    def plain(answers: "Mapping[TopicPartition, ListedOffset | KafkaError]") -> dict[TopicPartition, int | str]:
        return {tp: each.offset if isinstance(each, ListedOffset) else str(each) for tp, each in answers.items()}

    return plain(starts), plain(ends)


def _show(status: "GroupStatus") -> None:
    print_table(_COLUMNS, status.as_document()["partitions"])
    for each in status.partitions:
        if each.problem is not None:
            note(f"{each.topic}-{each.partition}: {each.problem}")
    if status.last is not None:
        say(f"last range: {_told(status.last)}, committed {time_text(status.last.written_ms)}{_rate(status.last)}")
    if status.unfinished is not None:
        killed = "no live member: the next run finishes or drops it"
        by = f"live members: {status.members}" if status.members else killed
        say(f"unfinished ({status.unfinished.state}): {_told(status.unfinished)}, {by}")
    count = f"{len(status.unknown):,} of {len(status.partitions):,} partitions"
    unknown = f", not counting {count}, whose lag is unknown" if status.unknown else ""
    say(f"lag {status.lag:,}{unknown}")


def _told(run: "RunStatus") -> str:
    return f"{run.name} of {run.offsets:,} offsets into {run.target}, planned {time_text(run.planned_ms)}"


def _rate(run: "RunStatus") -> str:
    rate = run.offsets_per_second
    return "" if rate is None else f", {rate:,.0f} offsets/s"
