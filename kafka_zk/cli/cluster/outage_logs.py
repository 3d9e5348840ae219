"""The options that name the files of an outage: ZooKeeper's transaction log and brokers' logs."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click

from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.output import note

if TYPE_CHECKING:
    from kafka_zk.recorder.broker_logs.log_files import BrokerLogs
    from kafka_zk.recorder.recording.recording import Recording
    from kafka_zk.recorder.web.outage_logs import ToldSource

PROGRESS_S = 5.0


@dataclass(frozen=True, slots=True)
class OutageLogs:
    """``source``: ZooKeeper's transaction log. ``logs``: the brokers' logs. Either is None if its option is not given.
    ``described``: a description of both and of the time zone."""

    source: "ToldSource | None"
    logs: "BrokerLogs | None"
    described: str

    def record(self, recording: "Recording", *, is_over: bool) -> None:
        """Record everything, with progress on stderr. ``is_over``: the cluster is not live. Raises CommandFailed."""
        from kafka_zk.recorder.web.outage_logs import record

        told_s = time.monotonic()
        try:
            for count in record(recording, self.source, self.logs, is_over=is_over):
                if time.monotonic() - told_s >= PROGRESS_S:
                    told_s = time.monotonic()
                    note(f"recorded {count:,} entries so far")
        except OSError as error:
            raise CommandFailed(f"the logs cannot be read: {error}") from error
        self.note_problems()

    def note_problems(self) -> None:
        """Write to stderr what could not be read."""
        misses = self.source.misses if self.source is not None else ""
        for problem in filter(None, (misses, *(self.logs.problems if self.logs is not None else ()))):
            note(f"missing: {problem}")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The values of the options. ``zone``: the time zone of the brokers' logs; None means this machine's."""

    zookeeper: tuple[Path, ...]
    brokers: Path | None
    zone: ZoneInfo | None
    chroot: str | None

    @property
    def is_given(self) -> bool:
        return bool(self.zookeeper) or self.brokers is not None

    def open(self, chroot: str | None = None, recording: "Recording | None" = None) -> OutageLogs:
        """``chroot``: the cluster's, if known. ``recording``: an existing one to continue. Raises CommandFailed."""
        try:
            source = self._source(self.chroot if self.chroot is not None else chroot, recording)
            logs = self._logs()
        except OSError as error:
            raise CommandFailed(f"the logs cannot be read: {error}") from error
        zone = self.zone.key if self.zone is not None else f"this machine's time zone, {time.tzname[0]}"
        parts = [source.described if source is not None else ""]
        parts.append(f"the brokers' logs in {self.brokers} (their times in {zone})" if logs is not None else "")
        return OutageLogs(source, logs, " and ".join(filter(None, parts)))

    def _source(self, chroot: str | None, recording: "Recording | None") -> "ToldSource | None":
        from kafka_zk.recorder.web.outage_logs import ToldSource
        from kafka_zk.recorder.web.sources import LogSource
        from kafka_zk.recorder.zookeeper_files.folder import files_folder

        if not self.zookeeper:
            return None
        folders = [each for each in self.zookeeper if any(files_folder(each).glob("log.*"))]
        if len(folders) != 1:
            named = ", ".join(map(str, self.zookeeper))
            wanted = "version-2/log.*" if not folders else "version-2/log.* of one server only"
            raise CommandFailed(f"{named}: expected {wanted}; name the server's dataLogDir (by default its dataDir)")
        [log] = folders
        snapshots = next((each for each in self.zookeeper if any(files_folder(each).glob("snapshot.*"))), log)
        found = _chroot(log, snapshots) if chroot is None else chroot
        if recording is None:
            return ToldSource(LogSource(log, found, snapshot_dir=snapshots))
        continued = LogSource(log, found, recording.entries.last_zxid(), snapshot_dir=snapshots)
        return ToldSource(continued, recording.znodes.after(recording.entries.count).znodes)

    def _logs(self) -> "BrokerLogs | None":
        from kafka_zk.recorder.broker_logs.log_files import NAMES, BrokerLogs

        if self.brokers is None:
            return None
        logs = BrokerLogs(self.brokers, self.zone)
        if not logs.file_count:
            raise CommandFailed(f"{self.brokers} and its folders have no {', '.join(NAMES[:-1])} or {NAMES[-1]}")
        return logs


def _chroot(log: Path, snapshots: Path) -> str:
    from kafka_zk.recorder.zookeeper_files.chroots import chroots

    found = chroots(log, snapshots)
    if len(found) > 1:
        named = ", ".join(each or "/" for each in found)
        raise CommandFailed(f"this ZooKeeper has several Kafka clusters: choose one with --chroot ({named})")
    if found and found[0]:
        note(f"the cluster is below {found[0]}")
    return found[0] if found else ""


def _zone(context: click.Context, parameter: click.Parameter, given: str | None) -> ZoneInfo | None:
    if given is None:
        return None
    try:
        return ZoneInfo(given)
    except (ValueError, OSError, KeyError):
        raise click.BadParameter(f"{given!r} is not a time zone such as Europe/Berlin or UTC") from None


def _chroot_path(context: click.Context, parameter: click.Parameter, given: str | None) -> str | None:
    if given is not None and not given.startswith("/"):
        raise click.BadParameter(f"{given!r} must begin with /")
    return None if given is None else given.rstrip("/")


_OPTIONS = (
    click.option(
        "--zookeeper-log",
        "zookeeper_logs",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        multiple=True,
        help="A ZooKeeper server's dataDir, or a copy: its transaction log has every change and the session "
        "that made it. If dataLogDir is another folder, name both.",
    ),
    click.option(
        "--broker-logs",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        help="A folder with server.log, controller.log and state-change.log, or with a folder of them for each broker.",
    ),
    click.option(
        "--log-time-zone",
        metavar="ZONE",
        callback=_zone,
        help="Time zone of the brokers' logs, such as Europe/Berlin or UTC. Default: that of this machine.",
    ),
    click.option(
        "--chroot",
        metavar="PATH",
        callback=_chroot_path,
        help="The cluster in --zookeeper-log, if there are several.",
    ),
)


def outage_log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command gets the parameter ``logs``, which is ``LogOptions``."""

    @wraps(command)
    def collected(
        *arguments: Any, zookeeper_logs: tuple[Path, ...], broker_logs: Path | None, log_time_zone: ZoneInfo | None,
        chroot: str | None, **others: Any,
    ) -> Any:  # fmt: skip
        logs = LogOptions(zookeeper_logs, broker_logs, log_time_zone, chroot)
        return command(*arguments, logs=logs, **others)

    decorated: Callable[..., Any] = collected
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
