"""``kafka-zk web``: the flight recorder's page for a live cluster, or for a recording."""

import errno
import signal
import sqlite3
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka_zk.broker.process.signals import ending_signals, interrupt_at_the_end
from kafka_zk.cli.cluster.outage_logs import LogOptions, outage_log_options
from kafka_zk.cli.cluster.web_sharing import LinkOptions, Links, link_options, shared_sentence
from kafka_zk.cli.page.permissions import Allowed, allowed_options
from kafka_zk.cli.terminal.command_config import command_config_option, command_security, secured, use_security
from kafka_zk.cli.terminal.durations import parse_duration_ms
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import zookeeper_option, zookeeper_properties
from kafka_zk.cli.terminal.output import note, print_json, say

if TYPE_CHECKING:
    from twisted.internet.error import CannotListenError

    from kafka_zk.cli.cluster.running_cluster import RunningCluster
    from kafka_zk.recorder.recording.documents import Document
    from kafka_zk.recorder.recording.recording import Recording
    from kafka_zk.recorder.web.operations import Operations
    from kafka_zk.recorder.web.service import Cluster, WebService
    from kafka_zk.recorder.web.sources import Source, WatchSource

URL = "web page at "
BREAK_URL = "with this address the page can break brokers; keep it to yourself: "
PRESENTER_URL = "presenter's link, for this machine; keep it to yourself: "
VIEWERS_URL = "viewers' link: "
CHANGE_URL = "with this address the page can change the cluster; keep it to yourself: "
VALUES_URL = "with this address the page can show records; keep it to yourself: "
LEAST_KEPT_MS = 60_000


def _kept_ms(context: click.Context, parameter: click.Parameter, given: str | None) -> int | None:
    if given is None:
        return None
    kept_ms = parse_duration_ms(given)
    if kept_ms < LEAST_KEPT_MS:
        raise click.UsageError("--keep must be at least PT1M")
    return kept_ms


@click.command("web", short_help="See in a browser what happens to a cluster, and rewind.")
@click.argument("recording", required=False)
@zookeeper_option("The cluster with this ZooKeeper; Apache Kafka's, too.", envvar="KAFKA_ZK_ZOOKEEPER")
@command_config_option
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), help="The data directory of a cluster of kafka-zk up."
)
@click.option(
    "--trace",
    "traces",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A file or directory that brokers (up --trace) or members (consume --trace) write; may be repeated.",
)
@outage_log_options
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep everything in this file, or continue it; an entry takes 200 to 600 bytes (the page shows how many there "
    "are). Without --record, only the last 256 MB are kept, in memory.",
)
@click.option(
    "--keep",
    metavar="DURATION",
    callback=_kept_ms,
    help="With --record: keep only this time, such as P7D or PT12H, and drop what is older, in parts of a 64th of it.",
)
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write RECORDING to this file, compressed and without secrets, for a colleague, and exit.",
)
@click.option(
    "--export",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the page of RECORDING to this directory, as one file that needs no server, and exit.",
)
@allowed_options
@link_options
def command(
    recording: str | None,
    zookeeper: str | None,
    data: Path | None,
    traces: tuple[Path, ...],
    logs: LogOptions,
    record: Path | None,
    keep: int | None,
    save: Path | None,
    directory: Path | None,
    allowed: Allowed,
    links: LinkOptions,
) -> None:
    """Show a live cluster in a browser, at present and at any earlier moment: brokers, partitions, groups, all znodes,
    and the cause of each event.

    For a cluster of kafka-zk up on this machine, the page reads ZooKeeper's transaction log, which has every change
    since the beginning, with the session that made it. The page can also kill, pause and restart the brokers. For
    other clusters, it shows what watches report. Brokers and members report their own steps with --trace or up --web.

    With --zookeeper-log, --broker-logs or both, it shows an outage of an Apache Kafka cluster from its logs; no server
    needs to run. With --zookeeper as well, it shows the live cluster, and the log replaces the watches.

    RECORDING is a file that --record, --save or the page has written, or a scenario of kafka-zk replay, which the page
    plays step by step: a file or the name of a built-in one.

    \b
    kafka-zk up --web
    kafka-zk web --zookeeper zk1:2181 --record outage.sqlite --keep P7D
    kafka-zk web --zookeeper-log /var/lib/zookeeper --broker-logs /var/log/kafka
    kafka-zk web outage.sqlite --save recording.kzr
    kafka-zk web --export outage recording.kzr
    kafka-zk web outage.sqlite --share
    """
    interrupt_at_the_end()
    if recording is not None and (traces or data is not None or record is not None or logs.is_given):
        raise click.UsageError("--data, --trace, --record and logs cannot be used with a recording")
    if logs.is_given and (traces or data is not None):
        raise click.UsageError("--data and --trace cannot be used with --zookeeper-log and --broker-logs")
    if keep is not None and (record is None or (logs.is_given and not _is_named("zookeeper"))):
        raise click.UsageError("--keep needs --record and a live cluster: logs without --zookeeper do not grow")
    if any(allowed) and (recording is not None or (logs.is_given and not _is_named("zookeeper"))):
        raise click.UsageError("--allow-changes and --allow-values need a live cluster")
    _check_outputs(recording, save, directory)
    if links.share and (save is not None or directory is not None):
        raise click.UsageError("--share serves the page, so it cannot be used with --save or --export")
    from kafka_zk.cli.cluster.web_recordings import open_recording, save_recording
    from kafka_zk.recorder.recording.errors import NoRecording
    from kafka_zk.recorder.recording.recording import Recording

    served = links.found()
    try:
        if recording is not None and save is not None:
            say(save_recording(recording, save))
        elif recording is not None and directory is not None:
            _export(recording, directory, links.as_json)
        elif recording is not None:
            _serve(*open_recording(recording), served)
        else:
            kept = Recording(record, keep_ms=keep)
            if kept.entries.count:
                note(f"continues {record}: {_size(kept)}")
            if logs.is_given:
                _serve(kept, *_loaded(kept, logs, zookeeper, allowed), served)
            else:
                _serve(kept, *_followed(kept, zookeeper, data, traces, allowed), served)
    except NoRecording as error:
        raise CommandFailed(str(error)) from error
    except sqlite3.DatabaseError as error:
        raise CommandFailed(f"the recording {recording or record} cannot be read: {error}") from error


def _check_outputs(recording: str | None, save: Path | None, directory: Path | None) -> None:
    if directory is not None and (recording is None or save is not None):
        raise click.UsageError("--export needs a recording, and cannot be used with --save")
    if save is not None and recording is None:
        raise click.UsageError("--save needs a recording; for a live cluster, the page itself saves what it shows")


def _export(recording: str, directory: Path, as_json: bool) -> None:
    from kafka_zk.cli.cluster.web_recordings import export_page, export_sentences

    with click.progressbar(length=100, label="exporting", file=sys.stderr) as bar:
        exported = export_page(recording, directory, lambda share: bar.update(int(100 * share) - bar.pos))
    if as_json:
        print_json({"event": "exported", **exported._asdict()})
    else:
        say(export_sentences(exported))


def _is_named(option: str) -> bool:
    """True if the option is on the command line, not in the environment."""
    return click.get_current_context().get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE


def _size(recording: "Recording") -> str:
    return f"{recording.entries.count - recording.entries.first + 1:,} entries, {recording.used_bytes / 1e6:.1f} MB"


def _loaded(
    recording: "Recording", logs: LogOptions, zookeeper: str | None, allowed: Allowed
) -> "tuple[Cluster | None, str]":
    """Record the current content of the logs, then follow the transaction log. ``zookeeper``: ignored unless it is on
    the command line."""
    from kafka_zk.recorder.web.heartbeats import Heartbeats
    from kafka_zk.recorder.web.service import Cluster
    from kafka_zk.recorder.zookeeper_health.poller import HealthPoller
    from kafka_zk.registry.client import connect_string

    zookeeper = zookeeper if _is_named("zookeeper") else None
    chroot = None if zookeeper is None else connect_string.parse(zookeeper).chroot or ""
    opened = logs.open(chroot, recording)
    opened.record(recording, is_over=zookeeper is None)
    if (source := opened.source) is None:
        return None, opened.described
    beats = None if zookeeper is None else Heartbeats(zookeeper)
    health = None if zookeeper is None else HealthPoller(zookeeper)
    operations = None if zookeeper is None else _operations(zookeeper, allowed)
    cluster = Cluster(source, source.told, heartbeats=beats, health=health, security=command_security(),
                      operations=operations, is_over=zookeeper is None)  # fmt: skip
    return cluster, opened.described


def _serve(recording: "Recording", cluster: "Cluster | None", described: str, links: Links) -> None:
    from twisted.internet import reactor
    from twisted.internet.error import CannotListenError

    from kafka_zk.recorder.web.service import WebService

    any_reactor: Any = reactor
    with ExitStack() as cleanup:
        service = WebService(recording, cluster, described, links.share)
        cleanup.callback(service.stop)
        if cluster is not None and not recording.is_bounded:
            cleanup.callback(lambda: note(f"recorded {recording.kept}: {_size(recording)}"))
        try:
            service.start(reactor, links.port)
        except CannotListenError as error:
            raise CommandFailed(_not_listening(error)) from error
        can_break = cluster is not None and cluster.break_broker is not None
        _print_links(service, links, CHANGE_URL if not can_break else BREAK_URL)

        def end(*_: object) -> None:
            if cluster is None:
                recording.database.interrupt()  # a query on someone else's file, which may take very long
            any_reactor.callFromThread(any_reactor.stop)

        for number in ending_signals():  # the reactor would log a KeyboardInterrupt and continue
            signal.signal(number, end)
        any_reactor.run()


def _not_listening(error: "CannotListenError") -> str:
    if error.socketError.errno == errno.EADDRNOTAVAIL:
        return f"{error.interface} is not an address of this machine: name one with --share-address"
    if error.socketError.errno == errno.EACCES:
        return f"this user is not allowed to use port {error.port}; choose another one with --port"
    return f"port {error.port} is in use; choose another one with --port"


def _print_links(service: "WebService", links: Links, acting: str) -> None:
    """``acting``: the words before the address for acts."""
    shared = {"presenter_url": service.presenter_url, "viewers_url": service.viewers_url} if links.share else {}
    if links.as_json:
        print_json({"event": "web", "url": service.url, "break_url": service.break_url,
                    "values_url": service.values_url, **shared})  # fmt: skip
    elif links.share is not None:
        say(f"{PRESENTER_URL}{service.presenter_url}\n{VIEWERS_URL}{service.viewers_url}")
    else:
        say(f"{URL}{service.url}" + (f"\n{acting}{service.break_url}" if service.break_url else ""))
    if not links.as_json and service.values_url:
        say(f"{VALUES_URL}{service.values_url}")
    if links.share is not None:
        note(shared_sentence(links.share))


def _operations(zookeeper: str, allowed: Allowed) -> "Operations":
    from kafka_zk.cli.page.operations import page_operations

    return page_operations(zookeeper, may_act=allowed.changes, shows_values=allowed.values)


def _followed(
    recording: "Recording", zookeeper: str | None, data: Path | None, traces: tuple[Path, ...], allowed: Allowed
) -> "tuple[Cluster, str]":
    """The live cluster, and what of it is followed."""
    from kafka_zk.cli.cluster.running_cluster import find_cluster
    from kafka_zk.recorder.web.heartbeats import Heartbeats
    from kafka_zk.recorder.web.service import Cluster
    from kafka_zk.recorder.web.sources import TraceSource
    from kafka_zk.recorder.web.watch_table import WatchTable
    from kafka_zk.recorder.zookeeper_health.poller import HealthPoller

    try:
        running = find_cluster(data, zookeeper)
    except CommandFailed:
        if data is not None or zookeeper is None:
            raise
        watches = _watches(zookeeper)
        told = TraceSource(*traces, from_start=True) if traces else None
        table = None if told is not None else WatchTable(zookeeper, lambda: watches.session_id)
        cluster = Cluster(watches, told, watch_table=table, heartbeats=Heartbeats(zookeeper),
                          health=HealthPoller(zookeeper, lambda: watches.session_state),
                          security=command_security(),
                          operations=_operations(zookeeper, allowed))  # fmt: skip
        return cluster, watches.described
    source = _log_of(running, recording.entries.last_zxid())
    found = traces or ((running.trace,) if running.trace is not None else ())
    if not found:
        note("the brokers' own steps are shown only if the brokers write traces: kafka-zk up --web, or --trace DIR")
    told = TraceSource(*found, from_start=not recording.entries.count) if found else None
    beats = Heartbeats(running.zookeeper)
    if running.client_file is not None and not secured():
        use_security(running.client_file)
    cluster = Cluster(source, told, running.broker_ids, lambda request: _break(running, request), heartbeats=beats,
                      health=HealthPoller(running.zookeeper), security=command_security(),
                      operations=_operations(running.zookeeper, allowed._replace(changes=True)))  # fmt: skip
    return cluster, source.described


def _log_of(running: "RunningCluster", after_zxid: int) -> "Source":
    from kafka_zk.recorder.web.sources import LogSource
    from kafka_zk.registry.client import connect_string

    log = Path(running.data) / "zookeeper" / "data"
    chroot = connect_string.parse(running.zookeeper).chroot
    return LogSource(log, chroot or "", after_zxid) if log.is_dir() else _watches(running.zookeeper)


def _watches(zookeeper: str) -> "WatchSource":
    from kafka_zk.recorder.web.sources import WatchSource
    from kafka_zk.registry.client.security_keys import zookeeper_security

    return WatchSource(zookeeper, zookeeper_security(zookeeper_properties()))


def _break(running: "RunningCluster", request: "Document") -> "Document":
    from kafka_zk.cli.cluster.break_actions import expected
    from kafka_zk.cli.cluster.running_cluster import EXPIRE

    if request["action"] != EXPIRE:
        return running.ask(request)
    session_id = running.expire(running.broker_id(str(request.get("broker"))))
    told = expected(EXPIRE, running.session_s, running.supervised)
    return {"state": f"without its session {session_id:#x}", "expected": told}
