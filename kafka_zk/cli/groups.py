"""``kafka-zk groups``: consumer groups that coordinate through ZooKeeper, ours and Kafka's old ones."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

import click

from kafka_zk.cli.command_group import CommandGroup
from kafka_zk.cli.options import group_option, groups_option, json_option, zookeeper_option
from kafka_zk.cli.output import note, print_json, print_rows, print_table

if TYPE_CHECKING:
    from kafka_zk.cli.group_access import PartitionOfGroup

COLUMNS = ("group", "topic", "partition", "current-offset", "log-end-offset", "lag", "owner", "store")
RESET_COLUMNS = ("group", "topic", "partition", "new-offset", "store")


@click.group("groups", cls=CommandGroup, short_help="Consumer groups in ZooKeeper: show, reset, remove, export.")
def command() -> None:
    """Show and change consumer groups that coordinate through ZooKeeper, and their offsets there.

    Offsets can be changed only while the group has no live members.

    \b
    kafka-zk groups list
    kafka-zk groups describe --group g
    kafka-zk groups reset-offsets --group g --topic t --to-earliest --execute
    kafka-zk groups export --group g > offsets.txt
    """


def where(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that every subcommand has."""
    asked = zookeeper_option("The ZooKeeper of the group.  [default: 127.0.0.1:2181]", envvar="KAFKA_ZK_ZOOKEEPER")
    return asked(json_option(function))


def brokers(function: Callable[..., Any]) -> Callable[..., Any]:
    """For those that ask where logs begin and end."""
    return click.option(
        "--bootstrap-server",
        "bootstrap",
        metavar="HOST:PORT[,...]",
        help="Brokers to ask for the ends of logs.  [default: those registered in ZooKeeper]",
    )(function)


@command.command("list")
@where
def list_groups(zookeeper: str | None, as_json: bool) -> None:
    """List all groups. A group without live members is Empty: only its offsets are left."""
    from kafka_zk.cli.group_access import group_access

    with group_access(zookeeper) as access:
        counts = access.groups()
    rows = [{"group": name, "state": "live" if count else "empty", "members": count} for name, count in counts.items()]
    print_rows(("group", "state", "members"), rows, as_json)


@command.command("describe")
@groups_option("May be repeated; all groups by default.")
@brokers
@where
def describe(wanted: tuple[str, ...], bootstrap: str | None, zookeeper: str | None, as_json: bool) -> None:
    """Show offset, lag and owner of each partition, and members that own none."""
    from kafka_zk.cli.group_access import group_access

    with group_access(zookeeper, bootstrap) as access:
        names = list(wanted) or list(access.groups())
        rows = [_row(name, each) for name in names for each in access.describe(name)]
    _print(COLUMNS, rows, as_json)


@command.command("delete")
@groups_option("May be repeated.", required=True)
@click.option("--topic", help="Remove only what is stored for this topic.")
@where
def delete(wanted: tuple[str, ...], topic: str | None, zookeeper: str | None, as_json: bool) -> None:
    """Remove groups without live members, with their offsets."""
    from kafka_zk.cli.group_access import group_access

    with group_access(zookeeper) as access:
        for name in wanted:
            if topic is None:
                access.delete(name)
            else:
                access.delete_topic(name, topic)
    if as_json:
        print_json({"deleted": list(wanted), "topic": topic})
    else:
        for name in wanted:
            click.echo(f"Deleted group {name}." if topic is None else f"Deleted topic {topic} of group {name}.")


@command.command("reset-offsets")
@group_option()
@click.option("--topic", "topics", multiple=True, metavar="TOPIC[:P,P...]", help="May be repeated.")
@click.option("--all-topics", is_flag=True, help="All partitions for which the group has offsets.")
@click.option("--to-earliest", is_flag=True, help="To the first offset of each log.")
@click.option("--to-latest", is_flag=True, help="To the end of each log.")
@click.option("--to-datetime", help="To the first record at or after this time (ISO 8601, or ms since the epoch).")
@click.option("--shift-by", type=int, help="By this many, forward or (if negative) back.")
@click.option("--to-offset", type=click.IntRange(0), help="To this offset.")
@click.option("--dry-run", is_flag=True, help="Only show the new offsets (the default).")
@click.option("--execute", is_flag=True, help="Do it.")
@brokers
@where
def reset_offsets(
    group: str,
    topics: tuple[str, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_datetime: str | None,
    shift_by: int | None,
    to_offset: int | None,
    dry_run: bool,
    execute: bool,
    bootstrap: str | None,
    zookeeper: str | None,
    as_json: bool,
) -> None:
    """Set the offsets of a group without live members."""
    from kafka_zk.cli.consume import parse_time_ms
    from kafka_zk.cli.group_access import group_access
    from kafka_zk.cli.group_reset import Target, chosen_partitions, new_offsets

    time_ms = parse_time_ms(to_datetime) if to_datetime is not None else None
    target = Target(to_earliest, to_latest, time_ms, shift_by, to_offset)
    if target.given() != 1:
        raise click.UsageError("give one of --to-earliest, --to-latest, --to-datetime, --shift-by, --to-offset")
    if bool(topics) == all_topics:
        raise click.UsageError("give --topic or --all-topics")
    if dry_run and execute:
        raise click.UsageError("give --dry-run or --execute, not both")
    with group_access(zookeeper, bootstrap) as access:
        access.refuse_live(group)
        current = access.offsets(group)
        with access.admin() as admin:
            resets = new_offsets(admin, chosen_partitions(admin, topics, current), current, target)
        if execute:
            access.store(group, resets)
    _print(RESET_COLUMNS, [_offset_row(group, tp, offset, "new-offset") for tp, offset in resets.items()], as_json)
    if not execute:
        note("Nothing was changed; --execute does it.")


@command.command("export")
@groups_option("May be repeated; all groups by default.")
@click.option("--output-file", type=click.File("w"), default="-", help="stdout by default.")
@where
def export(wanted: tuple[str, ...], output_file: TextIO, zookeeper: str | None, as_json: bool) -> None:
    """Write stored offsets as Kafka's ExportZkOffsets does: /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET."""
    from kafka_zk.cli import offsets_file
    from kafka_zk.cli.group_access import group_access

    with group_access(zookeeper) as access:
        for name in wanted:
            access.check_there(name)
        stored = {name: access.offsets(name) for name in (wanted or access.groups())}
    if as_json:
        print_json(_offset_documents(stored))
        return
    for name, offsets in stored.items():
        for line in offsets_file.lines(name, offsets):
            click.echo(line, file=output_file)


@command.command("import")
@click.option("--input-file", type=click.File("r"), default="-", help="stdin by default.")
@where
def import_offsets(input_file: TextIO, zookeeper: str | None, as_json: bool) -> None:
    """Store the offsets from a file written by export (or Kafka's ExportZkOffsets)."""
    from kafka_zk.cli import offsets_file
    from kafka_zk.cli.group_access import group_access

    groups = offsets_file.parse(input_file)
    with group_access(zookeeper) as access:
        for name in groups:
            access.refuse_live(name)
        for name, offsets in groups.items():
            access.store(name, offsets)
    if as_json:
        print_json(_offset_documents(groups))
    else:
        for name, offsets in groups.items():
            click.echo(f"Stored {len(offsets)} offsets of group {name} in ZooKeeper.")


def _row(group: str, each: "PartitionOfGroup") -> dict[str, Any]:
    from kafka_zk.cli.group_access import STORE

    return {
        "group": group,
        "topic": each.tp.topic if each.tp else None,
        "partition": each.tp.partition if each.tp else None,
        "current-offset": each.offset,
        "log-end-offset": each.log_end,
        "lag": each.lag,
        "owner": each.owner,
        "store": STORE if each.tp else None,
    }


def _offset_row(group: str, tp: Any, offset: int, column: str) -> dict[str, Any]:
    from kafka_zk.cli.group_access import STORE

    return {"group": group, "topic": tp.topic, "partition": tp.partition, column: offset, "store": STORE}


def _offset_documents(stored: Any) -> list[dict[str, Any]]:
    return [
        _offset_row(group, tp, offset, "offset") for group, offsets in stored.items() for tp, offset in offsets.items()
    ]


def _print(columns: tuple[str, ...], rows: list[dict[str, Any]], as_json: bool) -> None:
    """Kafka's column names have hyphens; keys of JSON are written as everywhere else."""
    if as_json:
        print_json([{key.replace("-", "_"): value for key, value in row.items()} for row in rows])
    else:
        print_table(columns, rows)
