"""``kafka-zk migration status``: how far a migration to KRaft is, and whether the next step is safe."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka_zk.cli.migration.gathering import Sources, gather, sources
from kafka_zk.cli.terminal.options import json_option
from kafka_zk.cli.terminal.output import print_json, say

if TYPE_CHECKING:
    from kafka_zk.migration.phase import Status

_INTERVAL_S = 2


@click.command("status", short_help="Show the phase of the migration, and what is safe to do.")
@sources
@click.option("--watch", "watches", is_flag=True, help="Show each change, until Ctrl-C.")
@json_option
def status(
    zookeeper: str | None, bootstrap: str | None, broker_files: tuple[Path, ...], controller_files: tuple[Path, ...],
    watches: bool, as_json: bool,
) -> None:  # fmt: skip
    """Show the phase of a migration to KRaft, the mode of each broker, and whether it is safe to continue or to roll
    back.

    The phases: none, waiting (the controllers wait for brokers), copying, dual write, brokers moving, brokers moved,
    finalised, rolled back half-way. ApiVersions shows each broker's mode, without any permission.

    \b
    kafka-zk migration status --zookeeper zk:2181/kafka --bootstrap-server b1:9092
    kafka-zk migration status --zookeeper zk:2181/kafka --bootstrap-server b1:9092
        --watch --json
    """
    from kafka_zk.migration.phase import status as status_of

    given = Sources(zookeeper, bootstrap, broker_files, controller_files)
    shown: Status | None = None
    with given.opened() as client:
        while True:
            found = status_of(gather(given, client))
            if found != shown:
                shown = found
                print_json(found.as_document()) if as_json else _show(found)
            if not watches:
                return
            time.sleep(_INTERVAL_S)


def _show(status: "Status") -> None:
    from kafka_zk.migration.facts import Unknown

    unknown = isinstance(status.phase, Unknown)
    say(f"Phase: {'unknown' if unknown else status.phase}" + (f" ({status.sign})" if status.sign else ""))
    for broker_id, mode in status.brokers.items():
        said = f"unknown: {mode.reason}. Needed: {mode.remedy}" if isinstance(mode, Unknown) else f"{mode} mode"
        say(f"Broker {broker_id}: {said}")
    say(f"Safe to continue: {status.go_on}")
    say(f"Safe to roll back: {status.roll_back}")
