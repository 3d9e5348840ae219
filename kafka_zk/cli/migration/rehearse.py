"""``kafka-zk migration rehearse``: the whole migration with a copy of a cluster's ZooKeeper, on this machine."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import json_option
from kafka_zk.cli.terminal.output import note, print_json, print_table, say
from kafka_zk.cli.terminal.properties import read_properties
from kafka_zk.cli.terminal.waiting import waiting
from kafka_zk.recorder.timeline.names import counted

if TYPE_CHECKING:
    from kafka_zk.embedded.java import Java
    from kafka_zk.embedded.kafka_jars import KafkaJars
    from kafka_zk.migration.finding import Finding
    from kafka_zk.migration.phase import Phase
    from kafka_zk.migration.rehearsal.copied_tree import CopiedTree
    from kafka_zk.migration.rehearsal.report import Report, Run
    from kafka_zk.migration.rehearsal.site import Equipment
    from kafka_zk.recorder.zookeeper_files.last_state import LastState

_FORWARD = "forward"
_DOWNLOAD_S = 900
_FOLDER = click.Path(path_type=Path, file_okay=False, exists=True)
_RUNS = (_FORWARD, "back-from-waiting", "back-from-dual-write", "back-from-brokers-moved")


class NotTried(CommandFailed):
    """The rehearsal could not begin."""

    exit_code = 2


@click.command("rehearse", short_help="Try the migration with a copy of your ZooKeeper.")
@click.option(
    "--snapshot",
    type=_FOLDER,
    required=True,
    help="ZooKeeper's dataDir, or a folder with its snapshot.* and log.* files (version-2).",
)
@click.option("--transaction-log", type=_FOLDER, help="ZooKeeper's dataLogDir, if it has one.")
@click.option("--chroot", help="The cluster's chroot, if the ZooKeeper has several clusters.")
@click.option(
    "--kafka-dir",
    type=_FOLDER,
    help="An unpacked Apache Kafka 3.9, or a folder of its jars. Default: mvn downloads 3.9.1 once.",
)
@click.option(
    "--brokers-from",
    "brokers_dir",
    type=_FOLDER,
    help="Start real brokers with the settings in DIR/server.properties, DIR/BROKER/server.properties or other "
    "*.properties files directly in DIR, one for each broker. Default: stand-ins.",
)
@click.option(
    "--controllers", "controller_count", type=click.IntRange(1, 9), default=3, show_default=True,
    help="Number of KRaft controllers; each needs about 300 MB of memory.",
)
@click.option("--run", "runs", type=click.Choice(_RUNS), multiple=True, help="Only this run; repeatable. Default: all.")
@json_option
def rehearse(
    snapshot: Path, transaction_log: Path | None, chroot: str | None, kafka_dir: Path | None, brokers_dir: Path | None,
    controller_count: int, runs: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """Migrate a copy of your cluster's metadata to KRaft, on this machine: once forward to the end and, with a new copy
    each time, back from each earlier phase.

    The copy is made from the files of one ZooKeeper server, which may be running. A ZooKeeper and real KRaft
    controllers of Apache Kafka 3.9 work with it. Instead of your brokers, stand-ins without data register and obey the
    controllers. So a rehearsal tests your data, how it is copied, the writes to both sides, and the end of the
    migration. With --brokers-from, real brokers of 3.9 with empty disks and copies of your server.properties also test
    the versions, listeners and authorizers.

    Nothing reaches your cluster: ephemeral znodes are left out, each address in the copy becomes 127.0.0.1, and all
    processes listen and connect there only. The copy contains credentials; its folder is readable by you alone, and is
    removed at the end.

    Exit code: 0 every run reached its end, 1 something broke or a rule of `check` found a trap, 2 the rehearsal could
    not be tried.

    \b
    kafka-zk migration rehearse --snapshot /var/lib/zookeeper/version-2
    kafka-zk migration rehearse --snapshot version-2 --kafka-dir kafka_2.13-3.9.1
        --run forward --json
    kafka-zk migration rehearse --snapshot version-2
        --brokers-from broker-settings --controllers 1
    """
    from kafka_zk.broker.process.signals import interrupt_at_the_end
    from kafka_zk.migration.rehearsal.walk import FAILURES

    interrupt_at_the_end()
    try:
        with _work_folder() as folder:
            report = _report(
                folder, snapshot, transaction_log, chroot, kafka_dir, brokers_dir, controller_count, runs or _RUNS
            )
    except FAILURES as error:
        raise NotTried(f"the migration could not be rehearsed: {error}") from error
    if as_json:
        print_json(report.as_document())
    else:
        _show(report)
    click.get_current_context().exit(report.exit_code)


@contextmanager
def _work_folder() -> Iterator[Path]:
    """A folder with mode 0700 (from ``mkdtemp``), which is always removed at the end."""
    from kafka_zk.embedded.interrupts import held

    with held():
        folder = Path(tempfile.mkdtemp(prefix="kafka-zk-rehearsal-"))
    try:
        yield folder
    finally:
        with held():
            _remove(folder)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        note(f"{folder} could not be removed: it contains credentials of your ZooKeeper, delete it")


def _report(
    folder: Path, snapshot: Path, transaction_log: Path | None, chroot: str | None, kafka_dir: Path | None,
    brokers_dir: Path | None, controller_count: int, names: Sequence[str],
) -> "Report":  # fmt: skip
    from kafka_zk.embedded.java import find_java
    from kafka_zk.embedded.kafka_jars import jars_from_maven, jars_in
    from kafka_zk.migration.rehearsal.copied_tree import copied_tree, for_real_brokers
    from kafka_zk.migration.rehearsal.report import REAL_BROKERS, STAND_INS, Report
    from kafka_zk.migration.rehearsal.site import Copy, Equipment

    java = find_java()
    with waiting("Apache Kafka's jars", _DOWNLOAD_S):
        jars = jars_from_maven() if kafka_dir is None else jars_in(kafka_dir)
    with waiting(f"the znodes in {snapshot}", None):
        state = _last_state(folder, snapshot, transaction_log)
        chroot = _chroot(state, chroot)
        tree = copied_tree(state.znodes, chroot)
    if tree.controller is not None and tree.controller.is_kraft:
        raise NotTried(
            f"the KRaft controller {tree.controller.node_id} already holds /controller: a rehearsal needs a copy from "
            "before the migration"
        )
    note(
        f"rehearsing with {counted(len(tree.data), 'znode')}, {counted(tree.topic_count, 'topic')} and "
        f"{counted(len(tree.broker_ids), 'broker')}, as of transaction {state.zxid:#x}; "
        f"Apache Kafka {jars.version} on Java {java.major_version} ({java.path})"
    )
    settings = {} if brokers_dir is None else _broker_settings(brokers_dir, tree)
    if settings:
        tree = for_real_brokers(tree)
    copy = Copy(tree, chroot, partial(_write_copy, state, tree, chroot))
    runs, findings = _walk(folder, Equipment(copy, java, jars, waiting, controller_count, settings), names)
    return Report(_source(state, tree, chroot, java, jars), REAL_BROKERS if settings else STAND_INS, findings, runs)


def _walk(folder: Path, equipment: "Equipment", names: Sequence[str]) -> "tuple[list[Run], list[Finding]]":
    """Rehearse all runs. Returns them and the traps in the copy. Raises: FAILURES if the first one cannot begin."""
    from kafka_zk.migration.rehearsal.walk import FAILURES, failed_run
    from kafka_zk.migration.rehearsal.walk import rehearse as walk

    done: list[Run] = []
    findings: list[Finding] = []
    for name in names:
        try:
            run, findings = walk(folder / name, equipment, _phase(name))
        except FAILURES as error:
            if not done:
                raise
            run = failed_run(_phase(name), error)
        done.append(run)
        shutil.rmtree(folder / name, ignore_errors=True)
    return done, findings


def _broker_settings(folder: Path, tree: "CopiedTree") -> Mapping[int, Mapping[str, str]]:
    """Raises: UnusableSettings, CommandFailed."""
    from kafka_zk.migration.rehearsal.broker_settings import by_broker

    paths = sorted({*folder.glob("*.properties"), *folder.glob("*/server.properties")})
    files = {str(path): dict(read_properties(path)) for path in paths}
    of_brokers = {
        path: settings for path, settings in files.items()
        if "broker.id" in settings or Path(path).name == "server.properties"
    }  # fmt: skip
    return by_broker(of_brokers, tree.broker_ids)


def _phase(name: str) -> "Phase | None":
    from kafka_zk.migration.phase import Phase

    return None if name == _FORWARD else Phase(name.removeprefix("back-from-").replace("-", " "))


def _last_state(folder: Path, snapshot: Path, transaction_log: Path | None) -> "LastState":
    """Raises: NotTried, OSError."""
    from kafka_zk.recorder.zookeeper_files.last_state import read_last_state

    log = transaction_log or snapshot
    state = read_last_state(_data_dir(folder / "snapshots", snapshot), _data_dir(folder / "log", log))
    if state is None:
        raise NotTried(f"{snapshot} has no complete snapshot of ZooKeeper (snapshot.*; compressed ones are not read)")
    if state.damage:
        raise NotTried(f"the copy would be old, because the log in {log} is incomplete: {'; '.join(state.damage)}")
    if not state.has_log:
        note(f"{log} has no transaction log: the copy is as old as the snapshot; --transaction-log names a dataLogDir")
    return state


def _data_dir(link: Path, given: Path) -> Path:
    """The folder that contains ``version-2``: ``given``, or else ``link`` with a symbolic link to ``given``."""
    if (given / "version-2").is_dir():
        return given
    link.mkdir()
    (link / "version-2").symlink_to(given.resolve(), target_is_directory=True)
    return link


def _chroot(state: "LastState", given: str | None) -> str:
    """Raises: NotTried."""
    from kafka_zk.migration.rehearsal.copied_tree import chroots

    found = chroots(path for path, znode in state.znodes.items() if not znode.session)
    if given is not None:
        wanted = "" if given == "/" else f"/{given.strip('/')}"
        if wanted not in found:
            raise NotTried(f"there is no Kafka cluster below {given} in this copy: {_names(found)}")
        return wanted
    if len(found) != 1:
        raise NotTried(f"choose a cluster with --chroot: {_names(found)}" if found else _names(found))
    return found[0]


def _names(found: Sequence[str]) -> str:
    return ", ".join(each or "/" for each in found) if found else "the copy has no Kafka cluster (/brokers/topics)"


def _write_copy(state: "LastState", tree: "CopiedTree", chroot: str, data_dir: Path) -> None:
    from kafka_zk.recorder.zookeeper_files.snapshot_writer import write_snapshot

    znodes = {
        f"{chroot}{path}": state.znodes[f"{chroot}{path}"]._replace(data=data) for path, data in tree.data.items()
    }
    write_snapshot(data_dir, state.zxid, znodes)


def _source(state: "LastState", tree: "CopiedTree", chroot: str, java: "Java", jars: "KafkaJars") -> dict[str, object]:
    return {
        "zxid": f"{state.zxid:#x}",
        "chroot": chroot or "/",
        "cluster_id": tree.cluster_id,
        "znodes": len(tree.data),
        "topics": tree.topic_count,
        "brokers": sorted(tree.broker_ids),
        "registered_brokers": sorted(tree.registered),
        "java": f"{java.major_version} ({java.path})",
        "kafka": jars.version,
    }


def _show(report: "Report") -> None:
    print_table(("run", "phase", "result", "seconds", "note"), [
        {"run": run.name, "phase": step.phase, "result": step.result, "seconds": f"{step.seconds:.1f}",
         "note": step.note}
        for run in report.runs for step in run.steps
    ])  # fmt: skip
    for finding in report.findings:
        _show_trap(finding)
    for run in report.runs:
        for step in run.steps:
            for problem in step.problems:
                say(f"BROKE {run.name}, {step.phase}: {problem}")
    say("")
    say(f"The brokers were played by {report.cast.name}. They test {report.cast.tested}.")
    say(f"They do not test {report.cast.not_tested}.")


def _show_trap(finding: "Finding") -> None:
    for sentence in finding.seen:
        say(f"TRAP {finding.rule.name}: {sentence}")
    say(f"  Why: {finding.rule.why}")
    say(f"  Fix: {finding.rule.fix}")
