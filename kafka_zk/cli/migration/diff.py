"""``kafka-zk migration diff``: compares KRaft's metadata log with the znodes while both are written."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka_zk.cli.migration.gathering import Sources, controller_log_dir_option, read_metadata_log, sources
from kafka_zk.cli.terminal.options import json_option
from kafka_zk.cli.terminal.output import print_json, print_table, say
from kafka_zk.cli.terminal.waiting import waiting
from kafka_zk.migration.facts import Fact, MigrationZnode, Unknown

if TYPE_CHECKING:
    from kafka_zk.migration.metadata.comparison import Difference
    from kafka_zk.migration.metadata.replay import MetadataLog
    from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient

_SETTLING_MS = 2_000
"""A change reaches both sides within a few tenths of a second."""
_MOST_ROWS = 200
_COLUMNS = ("kind", "name", "field", "zookeeper", "kraft")
_NOT_COMPARED = "controller epochs and partition epochs, which differ by nature; encrypted passwords of brokers"


@click.command("diff", short_help="Compare KRaft's metadata with ZooKeeper's.")
@sources
@controller_log_dir_option
@json_option
def diff(
    zookeeper: str | None, bootstrap: str | None, broker_files: tuple[Path, ...], controller_files: tuple[Path, ...],
    controller_log_dir: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Compare KRaft's metadata log with the znodes while both are written: topics, their ids, assignments, ISRs,
    leaders and leader epochs, configurations, ACLs, SCRAM users, quotas, delegation tokens and producer ids.

    The log is fetched from the controllers, which needs ClusterAction on Cluster, or read in a controller's folder.
    Differences are compared again after two seconds, and shown if they are still there. Keys of users and the values of
    brokers' configurations are compared, but not shown.

    Exit code: 0 both sides are equal, 1 they differ or the command failed, 2 nothing differs, but something could not
    be read, or one side is older.

    \b
    kafka-zk migration diff --zookeeper zk:2181/kafka
        --bootstrap-server b1:9092 --command-config admin.properties
    kafka-zk migration diff --zookeeper zk:2181/kafka
        --controller-log-dir /var/lib/kafka-controller
    """
    if zookeeper is None:
        raise click.UsageError("give --zookeeper")
    given = Sources(zookeeper, bootstrap, broker_files, controller_files)
    with given.opened() as client:
        assert client is not None
        found = _settled(given, controller_log_dir, client)
    if as_json:
        print_json(found.as_document())
    else:
        _show(found)
    click.get_current_context().exit(found.exit_code)


@dataclass(frozen=True)
class Comparison:
    """``before`` and ``after``: ``/migration``, read before the log and after the other znodes. ``unread``: what could
    not be read, and so was not compared."""

    log: "MetadataLog | None"
    before: Fact[MigrationZnode | None]
    after: Fact[MigrationZnode | None]
    differences: "tuple[Difference, ...]"
    unread: tuple[Unknown, ...]

    @property
    def exit_code(self) -> int:
        return 1 if self.differences else 2 if self.unread or not self.is_level else 0

    @property
    def is_level(self) -> bool:
        """False if one side is older, or if this is not known."""
        from kafka_zk.migration.metadata.comparison import are_level

        return self.log is not None and are_level(_offset(self.before), _offset(self.after), self.log)

    @property
    def older(self) -> str | None:
        from kafka_zk.migration.metadata.comparison import older_side

        if self.log is None or isinstance(self.before, Unknown) or isinstance(self.after, Unknown):
            return None
        return older_side(_offset(self.before), _offset(self.after), self.log)

    def as_document(self) -> dict[str, Any]:
        log = self.log
        return {
            "differences": [each.as_document() for each in self.differences],
            "log": None if log is None else {
                "source": log.source, "end_offset": log.end_offset,
                "migration_state": log.state.name,
            },
            "zookeeper_offset": _offset(self.after),
            "older": self.older,
            "not_compared": [{"reason": each.reason, "remedy": each.remedy} for each in self.unread],
        }  # fmt: skip


def _offset(znode: Fact[MigrationZnode | None]) -> int | None:
    return znode.metadata_offset if isinstance(znode, MigrationZnode) else None


def _settled(given: Sources, folder: Path | None, client: "KazooBlockingClient") -> Comparison:
    """Compare twice, and keep the differences that are still there after a pause, even with other values."""
    first = _compared(given, folder, client)
    if first.log is None or (first.is_level and not first.differences):
        return first
    with waiting("both sides, which may still change", _SETTLING_MS / 1000):
        client.process(_SETTLING_MS)
    second = _compared(given, folder, client)
    before = {each.place for each in first.differences}
    return replace(second, differences=tuple(each for each in second.differences if each.place in before))


def _compared(given: Sources, folder: Path | None, client: "KazooBlockingClient") -> Comparison:
    from kafka_zk.migration.metadata.comparison import differences, unread_of
    from kafka_zk.migration.metadata.znode_image import read_image
    from kafka_zk.migration.zookeeper_collector import read_migration
    from kafka_zk.registry.client.kazoo_blocking import run_blocking

    before = run_blocking(read_migration(client))
    log = read_metadata_log(given, folder)
    if isinstance(log, Unknown):
        return Comparison(None, before, before, (), (log,))
    znodes = run_blocking(read_image(client))
    after = run_blocking(read_migration(client))
    unread = [*unread_of(znodes), *([after] if isinstance(after, Unknown) else [])]
    return Comparison(log, before, after, tuple(differences(znodes, log.image)), tuple(unread))


def _show(found: Comparison) -> None:
    shown = found.differences[:_MOST_ROWS]
    if shown:
        print_table(_COLUMNS, [each.as_document() for each in shown])
        if len(found.differences) > len(shown):
            say(f"… and {len(found.differences) - len(shown)} more (give --json to see all)")
        say("")
    if found.log is not None:
        state = found.log.state.name
        say(f"Metadata log: {found.log.source}, up to offset {found.log.end_offset - 1}, state {state}")
    if found.older is not None:
        say(f"Order: {found.older}")
    for each in found.unread:
        say(f"Not compared: {each.reason}. Needed: {each.remedy}")
    if found.log is not None:
        say(f"Never compared: {_NOT_COMPARED}")
    say(_summary(found))


def _summary(found: Comparison) -> str:
    if found.log is None:
        return "Nothing was compared"
    if not found.differences:
        return (
            "Nothing differs" if found.is_level else "Nothing differs, but the two sides are not at the same offset"
        )
    counts = Counter(each.kind.value for each in found.differences)
    return "Differences: " + ", ".join(f"{kind} {count}" for kind, count in counts.items())
