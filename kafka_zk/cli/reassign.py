"""``kafka-zk reassign``: move partitions to other brokers, as ``kafka-reassign-partitions`` does, with its files."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.terminal.command_config import secured
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import bootstrap_option, json_option
from kafka_zk.cli.terminal.output import note, print_json, print_rows
from kafka_zk.clients.connection.errors import BrokerError

if TYPE_CHECKING:
    from kafka_zk.clients.admin.blocking_admin import BlockingAdmin

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

Moves = dict["TopicPartition", list[int]]


@click.command("reassign", short_help="Move partitions to other brokers.")
@click.option("--execute", type=_FILE, help="Begin the moves in this file.")
@click.option("--verify", type=_FILE, help="Show which moves in this file are done; the exit code is 1 if not all are.")
@click.option("--cancel", type=_FILE, help="Cancel the moves in this file that are in progress.")
@click.option("--generate", metavar="BROKER[,...]", help="Print a file that spreads --topic evenly over these brokers.")
@click.option("--list", "lists", is_flag=True, help="Show the moves that are in progress.")
@click.option("--topic", "topics", multiple=True, help="For --generate; may be repeated.")
@click.option("--disable-rack-aware", is_flag=True, help="For --generate: ignore broker.rack.")
@click.option(
    "--throttle",
    metavar="BYTES",
    type=click.IntRange(min=0),
    help="For --execute: copy at most this many bytes a second from and to each broker. --verify removes it.",
)
@bootstrap_option
@json_option
def command(
    execute: Path | None,
    verify: Path | None,
    cancel: Path | None,
    generate: str | None,
    lists: bool,
    topics: tuple[str, ...],
    disable_rack_aware: bool,
    throttle: int | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Move partitions to other brokers while clients use them.

    The new replicas catch up first, then the old ones are deleted. The files are those of kafka-reassign-partitions:
    {"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}, the preferred leader first.

    \b
    kafka-zk reassign --generate 1,2,3 --topic t > moves.json
    kafka-zk reassign --execute moves.json
    kafka-zk reassign --verify moves.json
    """
    from kafka_zk.clients.admin.blocking_admin import BlockingAdmin

    if sum(bool(each) for each in (execute, verify, cancel, generate, lists)) != 1:
        raise click.UsageError("give one of --execute, --verify, --cancel, --generate, --list")
    if bool(generate) != bool(topics):
        raise click.UsageError("--generate and --topic go together")
    if throttle is not None and execute is None:
        raise click.UsageError("--throttle goes with --execute")
    with BlockingAdmin(bootstrap_servers=bootstrap, **secured()) as admin:
        if generate is not None:
            racks = _racks(admin, _broker_ids(generate), rack_aware=not disable_rack_aware)
            print_json(_document(_spread(admin, topics, racks)))
        elif lists:
            _show_moving(admin, as_json)
        elif execute is not None:
            _execute(admin, _moves(execute), throttle, as_json)
        elif cancel is not None:
            moves = _moves(cancel)
            outcomes = admin.alter_reassignments(dict.fromkeys(moves))
            _remove_throttles(admin, moves)
            _tell(outcomes, "cancelled", as_json)
        elif verify is not None:
            _verify(admin, _moves(verify), as_json)


def _moves(path: Path) -> Moves:
    from kafka_zk.registry.client.errors import InvalidZnode
    from kafka_zk.registry.znodes import admin

    try:
        moves = admin.decode_reassignment(path.read_bytes())
    except InvalidZnode as error:
        problem = str(error).removeprefix(f"{admin.REASSIGN_PARTITIONS}: ")
        raise CommandFailed(f"{path} is not a file of moves: {problem}") from None
    if not moves:
        raise CommandFailed(f"{path} has no moves")
    return moves


def _broker_ids(text: str) -> list[int]:
    try:
        return sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise click.UsageError(f"--generate {text}: broker ids are numbers") from None


def _racks(admin: "BlockingAdmin", broker_ids: Sequence[int], *, rack_aware: bool) -> dict[int, str | None]:
    nodes = admin.describe_cluster().nodes if rack_aware else {}
    return {broker: nodes[broker].rack if broker in nodes else None for broker in broker_ids}


def _spread(admin: "BlockingAdmin", topics: Sequence[str], racks: Mapping[int, str | None]) -> Moves:
    """Keep each topic's replication factor."""
    from kafka_zk.broker.metadata import replica_assignment
    from kafka_zk.cli.terminal.brokers import check_topics

    check_topics(admin, list(topics))
    moves: Moves = {}
    for number, (name, topic) in enumerate(admin.describe_topics(topics).items()):
        factor = len(topic.partitions[0].replicas)
        if factor > len(racks):
            raise CommandFailed(f"{name} has {factor} replicas, but fewer brokers are given")
        start = number % len(racks)
        try:
            spread = replica_assignment.assign_by_racks(racks, len(topic.partitions), factor, start, start)
        except replica_assignment.MissingRacks as error:
            raise CommandFailed(f"{error} Use --disable-rack-aware to ignore racks.") from None
        moves.update((TopicPartition(name, partition), list(replicas)) for partition, replicas in spread.items())
    return moves


def _document(moves: Mapping["TopicPartition", Sequence[int]]) -> dict[str, Any]:
    from kafka_zk.registry.znodes import admin

    return dict(json.loads(admin.encode_reassignment({tp: list(replicas) for tp, replicas in moves.items()})))


def _show_moving(admin: "BlockingAdmin", as_json: bool) -> None:
    moving = admin.list_reassignments()
    rows = [
        {"topic": tp.topic, "partition": tp.partition, **{key: list(ids) for key, ids in each._asdict().items()}}
        for tp, each in moving.items()
    ]
    if rows or as_json:
        print_rows(("topic", "partition", "replicas", "adding", "removing"), rows, as_json)
    else:
        note("No partition is being moved.")


def _execute(admin: "BlockingAdmin", moves: Moves, throttle: int | None, as_json: bool) -> None:
    from kafka_zk.cli import reassignment_throttle

    if throttle is not None:
        brokers = reassignment_throttle.apply(admin, moves, throttle)
        note(f"Brokers {', '.join(map(str, brokers))} copy at most {throttle} bytes a second until --verify is done.")
    _tell(admin.alter_reassignments(moves), "begun", as_json)


def _remove_throttles(admin: "BlockingAdmin", moves: Moves) -> None:
    from kafka_zk.cli import reassignment_throttle

    if not admin.list_reassignments():
        removed = reassignment_throttle.remove(admin, {tp.topic for tp in moves})
        if removed:
            note(f"Throttles removed: {removed}.")


def _tell(outcomes: Mapping["TopicPartition", "BrokerError | None"], done: str, as_json: bool) -> None:
    rows = [
        {"topic": tp.topic, "partition": tp.partition, "result": done if error is None else str(error)}
        for tp, error in sorted(outcomes.items())
    ]
    print_rows(("topic", "partition", "result"), rows, as_json)
    refused = sum(error is not None for error in outcomes.values())
    if refused:
        raise CommandFailed(f"{refused} of {len(outcomes)} moves were refused")


def _verify(admin: "BlockingAdmin", moves: Moves, as_json: bool) -> None:
    moving = admin.list_reassignments()
    existing = set(admin.list_topics())
    described = admin.describe_topics(sorted({tp.topic for tp in moves} & existing))
    present = {
        (name, each.partition): list(each.replicas) for name, topic in described.items() for each in topic.partitions
    }
    rows = []
    for tp, target in sorted(moves.items()):
        replicas = present.get((tp.topic, tp.partition))
        if replicas is None:
            result = "does not exist"
        elif tp in moving:
            result = "under way"
        else:
            result = "done" if replicas == target else f"other replicas: {replicas}"
        rows.append({"topic": tp.topic, "partition": tp.partition, "target": target, "result": result})
    print_rows(("topic", "partition", "target", "result"), rows, as_json)
    if not moving:
        _remove_throttles(admin, moves)
    undone = sum(row["result"] != "done" for row in rows)
    if undone:
        raise CommandFailed(f"{undone} of {len(rows)} moves are not done")
