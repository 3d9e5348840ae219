"""``kafka-zk groups``: consumer groups of both kinds, at the brokers and in ZooKeeper."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TextIO

import click
from click.core import ParameterSource

from kafka_zk.base.types import TopicPartition, partitions_by_topic
from kafka_zk.cli.groups.group_kinds import GroupKind, PartitionOfGroup
from kafka_zk.cli.terminal.command_group import CommandGroup
from kafka_zk.cli.terminal.options import (
    bootstrap_servers_option,
    group_option,
    groups_option,
    json_option,
    zookeeper_option,
)
from kafka_zk.cli.terminal.output import note, print_json, print_rows, print_table, say
from kafka_zk.cli.terminal.text_file import TEXT_FILE, read_lines

if TYPE_CHECKING:
    from kafka_zk.cli.groups.group_access import Where
    from kafka_zk.cli.groups.group_reset import Target

COLUMNS = ("group", "type", "topic", "partition", "current-offset", "log-end-offset", "lag", "owner")
CAPACITY_COLUMNS = ("capacity",)
MEMBER_COLUMNS = ("host", "client-id")
RESET_COLUMNS = ("group", "type", "topic", "partition", "new-offset")
MIGRATE_COLUMNS = ("group", "topic", "partition", "zookeeper-offset", "broker-offset", "result", "reason")
KINDS = ("broker", "zookeeper")


@click.group("groups", cls=CommandGroup, short_help="Consumer groups of both kinds: show, reset, remove, migrate.")
def command() -> None:
    """Show and change consumer groups and their offsets.

    There are two kinds, shown in the column TYPE: broker groups, which a broker coordinates for modern clients, and
    ZooKeeper groups, whose members coordinate through ZooKeeper. Both kinds may have a group of the same name.

    Offsets can be changed only while the group has no live members.

    \b
    kafka-zk groups list
    kafka-zk groups describe --group g
    kafka-zk groups reset-offsets --group g --topic t --to-earliest --execute
    kafka-zk groups migrate --group g --to broker --dry-run
    kafka-zk groups export --group g > offsets.txt
    """


def in_zookeeper(function: Callable[..., Any]) -> Callable[..., Any]:
    asked = zookeeper_option("The ZooKeeper of the group.  [default: 127.0.0.1:2181]", envvar="KAFKA_ZK_ZOOKEEPER")
    return asked(json_option(function))


def brokers(help_text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return bootstrap_servers_option(help_text)


def where(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of commands for both kinds, as the parameter ``at``."""

    @in_zookeeper
    @brokers("The brokers.  [default: those registered in ZooKeeper]  Without --zookeeper, only broker groups.")
    @click.option("--type", "kind", type=click.Choice(KINDS), help="Only groups of this kind.")
    @wraps(function)
    def with_where(
        *arguments: Any, zookeeper: str | None, bootstrap: str | None, kind: str | None, **options: Any
    ) -> Any:
        from kafka_zk.cli.groups import group_access

        source = click.get_current_context().get_parameter_source("zookeeper")
        names_zookeeper = source is ParameterSource.COMMANDLINE
        at = group_access.where(zookeeper, bootstrap, kind, names_zookeeper=names_zookeeper)
        return function(*arguments, at=at, **options)

    return with_where


@command.command("list")
@where
def list_groups(at: "Where", as_json: bool) -> None:
    """List all groups. A group without live members is Empty and has only offsets."""
    from kafka_zk.cli.groups.group_access import group_access

    with group_access(at) as access:
        found = access.overviews()
    rows = [
        {"group": name, "type": kind, "state": overview.state, "members": overview.member_count}
        for name, kind, overview in found
    ]
    print_rows(("group", "type", "state", "members"), rows, as_json)


@command.command("describe")
@click.option("--group", "wanted", multiple=True, help="May be repeated; all groups by default.")
@where
def describe(wanted: tuple[str, ...], at: "Where", as_json: bool) -> None:
    """Show the offset, lag and owner of each partition, and members without partitions.

    Members of a broker group are shown with their host and client id. Members of a group in ZooKeeper are shown with
    their capacity (consumer.capacity) if they register one.
    """
    from kafka_zk.cli.groups.group_access import check_names, group_access

    check_names(wanted, at.kind)
    with group_access(at) as access:
        found = access.describe(wanted)
    has_capacities = any(row.capacity is not None for _, _, row in found)
    has_hosts = any(row.host is not None for _, _, row in found)
    columns = COLUMNS + (CAPACITY_COLUMNS if has_capacities else ()) + (MEMBER_COLUMNS if has_hosts else ())
    _print(columns, [_row(*each) for each in found], as_json)


@command.command("delete")
@click.option("--group", "wanted", multiple=True, required=True, help="May be repeated.")
@where
def delete(wanted: tuple[str, ...], at: "Where", as_json: bool) -> None:
    """Remove groups without live members, with their offsets."""
    from kafka_zk.cli.groups.group_access import check_names, group_access

    check_names(wanted, at.kind)
    with group_access(at) as access:
        sides = {name: access.the_one(name) for name in wanted}
        for name, side in sides.items():
            side.delete(name)
            if not as_json:
                say(f"Deleted group {name} {side.kind.place}.")
    if as_json:
        print_json([{"group": name, "type": side.kind} for name, side in sides.items()])


@command.command("delete-offsets")
@click.option("--group", required=True)
@click.option("--topic", "topics", multiple=True, required=True, metavar="TOPIC[:P,P...]", help="May be repeated.")
@where
def delete_offsets(group: str, topics: tuple[str, ...], at: "Where", as_json: bool) -> None:
    """Remove a group's offsets for topics that it no longer reads."""
    from kafka_zk.cli.groups.group_access import check_names, group_access
    from kafka_zk.cli.groups.group_reset import parse_topics

    check_names([group], at.kind)
    with group_access(at) as access:
        side = access.the_one(group)
        offsets = side.offsets(group)
        lacking = f"group {group} has no such offsets {side.kind.place}"
        tps = parse_topics(topics, partitions_by_topic(offsets), lacking=lacking)
        side.delete_offsets(group, tps)
    rows = [_offset_row(group, side.kind, tp, offsets[tp], "deleted-offset") for tp in tps]
    _print((*RESET_COLUMNS[:-1], "deleted-offset"), rows, as_json)


def targets(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for new offsets; their names are the parameters of ``_target``."""
    for option in reversed(
        (
            click.option("--to-earliest", is_flag=True, help="To the first offset of each log."),
            click.option("--to-latest", is_flag=True, help="To the end of each log."),
            click.option("--to-current", is_flag=True, help="To the committed offset; to the end where there is none."),
            click.option(
                "--to-datetime",
                help="To the first record at or after this time (ISO 8601, or ms since the epoch).",
            ),
            click.option("--by-duration", help="To the first record of this period before now: P1D, PT2H30M."),
            click.option("--shift-by", type=int, help="Forward by this many, or back if negative."),
            click.option("--to-offset", type=click.IntRange(0), help="To this offset."),
            click.option("--from-file", type=TEXT_FILE, help="To those in this file: lines TOPIC,PARTITION,OFFSET."),
        )
    ):
        function = option(function)
    return function


@command.command("reset-offsets")
@click.option("--group", required=True)
@click.option("--topic", "topics", multiple=True, metavar="TOPIC[:P,P...]", help="May be repeated.")
@click.option("--all-topics", is_flag=True, help="All partitions for which the group has offsets.")
@targets
@click.option("--dry-run", is_flag=True, help="Only show the new offsets (the default).")
@click.option("--execute", is_flag=True, help="Do it.")
@click.option("--export", is_flag=True, help="Print lines for --from-file and Kafka's tool instead of a table.")
@where
def reset_offsets(
    group: str,
    topics: tuple[str, ...],
    all_topics: bool,
    dry_run: bool,
    execute: bool,
    export: bool,
    at: "Where",
    as_json: bool,
    **options: Any,
) -> None:
    """Set the offsets of a group without live members.

    With --type, or with --bootstrap-server alone, the group need not exist yet.
    """
    from kafka_zk.cli.groups import reset_plan
    from kafka_zk.cli.groups.group_access import check_names, group_access
    from kafka_zk.cli.groups.group_reset import chosen_partitions, new_offsets

    target = _target(group, **options)
    if target.planned is None and bool(topics) == all_topics:
        raise click.UsageError("give --topic or --all-topics")
    if target.planned is not None and (topics or all_topics):
        raise click.UsageError("--topic and --all-topics cannot be used with --from-file, which names the partitions")
    if dry_run and execute:
        raise click.UsageError("give --dry-run or --execute, not both")
    if export and as_json:
        raise click.UsageError("give --export or --json, not both")
    check_names([group], at.kind)
    with group_access(at) as access:
        side = access.the_one(group, may_be_new=True)
        side.refuse_live(group)
        current = side.offsets(group) if group in side.names() else {}
        with access.brokers.asked() as admin:
            tps = chosen_partitions(admin, topics, current, target.planned)
            resets = new_offsets(admin, tps, current, target)
        if execute:
            side.store(group, resets)
    if export:
        for line in reset_plan.lines(resets):
            click.echo(line)
    else:
        _print(RESET_COLUMNS, _offset_rows(group, side.kind, resets, "new-offset"), as_json)
    if not execute:
        note("Nothing was changed; --execute applies the offsets.")


def _target(
    group: str,
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
    to_offset: int | None,
    from_file: TextIO | None,
) -> "Target":
    import time

    from kafka_zk.cli.groups import reset_plan
    from kafka_zk.cli.groups.group_reset import Target
    from kafka_zk.cli.terminal.durations import parse_duration_ms, parse_time_ms

    time_ms = parse_time_ms(to_datetime) if to_datetime is not None else None
    if by_duration is not None and time_ms is None:
        time_ms = int(time.time() * 1000) - parse_duration_ms(by_duration)
        by_duration = None
    planned = reset_plan.parse(read_lines(from_file), group) if from_file is not None else None
    target = Target(to_earliest, to_latest, to_current, time_ms, shift_by, to_offset, planned)
    if target.given() != 1 or by_duration is not None:
        raise click.UsageError(
            "give one of --to-earliest, --to-latest, --to-current, --to-datetime, --by-duration, --shift-by, "
            "--to-offset, --from-file"
        )
    return target


@command.command("migrate")
@group_option
@click.option("--topic", "topics", multiple=True, metavar="TOPIC[:P,P...]", help="May be repeated; all by default.")
@click.option("--to", "kind", type=click.Choice(KINDS), required=True, help="The side that gets the offsets.")
@click.option("--dry-run", is_flag=True, help="Only show what would be copied.")
@brokers("The brokers.  [default: those registered in ZooKeeper]")
@in_zookeeper
def migrate(
    group: str,
    topics: tuple[str, ...],
    kind: str,
    dry_run: bool,
    bootstrap: str | None,
    zookeeper: str | None,
    as_json: bool,
) -> None:
    """Copy a group's offsets from ZooKeeper to the brokers, or back.

    The group must have no live members on either side. An offset never moves back, so the command may be repeated. The
    table shows the previous offsets of both sides; the source side keeps its offsets.

    \b
    kafka-zk groups migrate --group g --to broker --dry-run
    kafka-zk groups migrate --group g --to broker
    kafka-zk groups delete --group g --type zookeeper
    """
    from kafka_zk.cli.groups.group_migration import migration

    to = GroupKind(kind)
    with migration(zookeeper, bootstrap) as between:
        rows = between.migrate(group, topics, to, dry_run=dry_run)
    documents = []
    for row in rows:
        in_zookeeper, at_broker = (row.source, row.target) if to is GroupKind.BROKER else (row.target, row.source)
        documents.append(
            {
                "group": group,
                "topic": row.tp.topic,
                "partition": row.tp.partition,
                "zookeeper-offset": in_zookeeper,
                "broker-offset": at_broker,
                "result": row.result,
                "reason": row.reason,
            }
        )
    _print(MIGRATE_COLUMNS, documents, as_json)


@command.command("export")
@groups_option("May be repeated; all groups by default.")
@click.option("--output-file", type=click.File("w"), default="-", help="stdout by default.")
@in_zookeeper
def export(wanted: tuple[str, ...], output_file: TextIO, zookeeper: str | None, as_json: bool) -> None:
    """Write offsets in ZooKeeper as Kafka's ExportZkOffsets does: /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET."""
    from kafka_zk.cli.groups import offsets_file
    from kafka_zk.cli.groups.group_access import Where, group_access

    with group_access(Where(zookeeper, kind=GroupKind.ZOOKEEPER)) as access:
        (side,) = access.sides.values()
        stored = {name: access.the_one(name).offsets(name) for name in (wanted or side.names())}
    if as_json:
        print_json(_offset_documents(stored))
        return
    for name, offsets in stored.items():
        for line in offsets_file.lines(name, offsets):
            click.echo(line, file=output_file)


@command.command("import")
@click.option("--input-file", type=TEXT_FILE, default="-", help="stdin by default.")
@in_zookeeper
def import_offsets(input_file: TextIO, zookeeper: str | None, as_json: bool) -> None:
    """Store the offsets from a file written by export (or Kafka's ExportZkOffsets) in ZooKeeper."""
    from kafka_zk.cli.groups import offsets_file
    from kafka_zk.cli.groups.group_access import Where, group_access

    groups = offsets_file.parse(read_lines(input_file))
    with group_access(Where(zookeeper, kind=GroupKind.ZOOKEEPER)) as access:
        (side,) = access.sides.values()
        for name in groups:
            side.refuse_live(name)
        for name, offsets in groups.items():
            side.store(name, offsets)
    if as_json:
        print_json(_offset_documents(groups))
    else:
        for name, offsets in groups.items():
            click.echo(f"Stored {len(offsets)} offsets of group {name} in ZooKeeper.")


def _row(group: str, kind: GroupKind, each: PartitionOfGroup) -> dict[str, Any]:
    return {
        "group": group,
        "type": kind,
        "topic": each.tp.topic if each.tp else None,
        "partition": each.tp.partition if each.tp else None,
        "current-offset": each.offset,
        "log-end-offset": each.log_end,
        "lag": each.lag,
        "owner": each.owner,
        "capacity": each.capacity,
        "host": each.host,
        "client-id": each.client_id,
    }


def _offset_rows(
    group: str, kind: GroupKind, offsets: Mapping[TopicPartition, int], column: str
) -> list[dict[str, Any]]:
    return [_offset_row(group, kind, tp, offset, column) for tp, offset in offsets.items()]


def _offset_row(group: str, kind: GroupKind, tp: TopicPartition, offset: int, column: str) -> dict[str, Any]:
    return {"group": group, "type": kind, "topic": tp.topic, "partition": tp.partition, column: offset}


def _offset_documents(stored: Mapping[str, Mapping[TopicPartition, int]]) -> list[dict[str, Any]]:
    return [
        row for group, offsets in stored.items() for row in _offset_rows(group, GroupKind.ZOOKEEPER, offsets, "offset")
    ]


def _print(columns: tuple[str, ...], rows: list[dict[str, Any]], as_json: bool) -> None:
    """Columns have hyphens, as in Kafka; JSON keys have underscores, as in other commands."""
    if as_json:
        print_json([{key.replace("-", "_"): value for key, value in row.items()} for row in rows])
    else:
        print_table(columns, rows)
