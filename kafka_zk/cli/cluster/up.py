"""``kafka-zk up``: a whole cluster in the foreground."""

import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Set
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka_zk.broker.process.signals import interrupt_at_the_end
from kafka_zk.cli.terminal.command_config import VARIABLE as COMMAND_CONFIG_VARIABLE
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import (
    BOOTSTRAP_VARIABLE,
    DEFAULT_BOOTSTRAP,
    WEB_PORT,
    ZOOKEEPER_VARIABLE,
    json_option,
    web_option,
    zookeeper_option,
    zookeeper_properties,
)
from kafka_zk.cli.terminal.output import note, print_json, say
from kafka_zk.cli.terminal.properties import KEY_VALUE
from kafka_zk.cli.terminal.waiting import waiting
from kafka_zk.embedded import interrupts

if TYPE_CHECKING:
    from kafka_zk.cli.cluster.web_page import WebPage
    from kafka_zk.embedded.broker import BrokerProcess
    from kafka_zk.embedded.cluster import EmbeddedCluster
    from kafka_zk.embedded.control_socket import ControlSocket
    from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper

ZOOKEEPER_PORT = 2181
WATCH_INTERVAL_S = 0.2
TRACE = "trace"
"""Folder of the brokers' traces in the data directory, for the web page."""
NAMED_COUNT = 5
CHOSEN_BY_UP = frozenset(("broker.id", "listeners", "advertised.listeners", "log.dir", "log.dirs", "zookeeper.connect"))


@click.command("up", short_help="Run a whole cluster in the foreground: ZooKeeper and brokers.")
@click.option(
    "--brokers", type=click.IntRange(1), default=3, show_default=True, help="Number of brokers; ids start at 0."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="Port of broker 0, the others follow; 0 chooses free ones.",
)
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), help="Data directory; a later start with it continues."
)
@zookeeper_option("Use this ZooKeeper instead of an embedded one.")
@click.option(
    "--zookeeper-port",
    type=click.IntRange(1, 65535),
    help=f"Port of the embedded ZooKeeper.  [default: {ZOOKEEPER_PORT}, or a free one if that is taken]",
)
@click.option("-o", "--override", "overrides", type=KEY_VALUE, multiple=True, help="A broker's key; may be repeated.")
@click.option(
    "--trace",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory that every broker writes its events into; for kafka-zk watch.",
)
@click.option(
    "--proxies/--no-proxies",
    default=None,
    help="Put proxies between brokers and ZooKeeper, and between brokers; kafka-zk break cut and delay need them.  "
    "[default: on with --web, unless -o or --zookeeper prevents it]",
)
@web_option(f"Show it in a browser: a page on this port (default {WEB_PORT}), and the brokers' events for it.")
@click.option(
    "--supervise/--no-supervise",
    default=True,
    show_default=True,
    help="Close the ZooKeeper session of a broker that has died, instead of waiting for its timeout.",
)
@click.option("--faults", is_flag=True, help="Let the brokers take named faults, for kafka-zk break fault.")
@click.option(
    "--secure",
    is_flag=True,
    help="SASL_SSL for clients and between brokers: makes certificates and users, and prints the file for clients.",
)
@json_option
def command(
    brokers: int,
    port: int,
    data: Path | None,
    zookeeper: str | None,
    zookeeper_port: int | None,
    overrides: tuple[tuple[str, str], ...],
    trace: Path | None,
    proxies: bool | None,
    web_port: int | None,
    supervise: bool,
    faults: bool,
    secure: bool,
    as_json: bool,
) -> None:
    """Run a cluster in the foreground until SIGINT, SIGTERM or SIGHUP: ZooKeeper and BROKERS processes.

    It prints the pid of every process. It prints one line "ready bootstrap=... zookeeper=..." once all brokers are
    registered, the controller is known, and every partition that can have a leader has one that serves. Without --data
    all files are in a temporary folder, which is removed at the end. If a broker dies, a line on stderr says so, and
    the other brokers elect new leaders at once; after kafka-zk break pause they wait for the session timeout. kafka-zk
    break kills brokers and restarts them.

    With three or more brokers each partition gets three replicas, unless -o default.replication.factor says otherwise;
    with two brokers, two.

    If commands would not find the cluster without options, up prints a line to paste: "export KAFKA_ZK_ZOOKEEPER=...
    KAFKA_ZK_BOOTSTRAP=...".

    With --secure brokers and clients log in over TLS. Certificates and the passwords of two users are in the data
    directory, in files that only you can read; later starts use them again. An existing open cluster can be started
    with --secure, and needs it from then on.

    \b
    kafka-zk up --web
    kafka-zk up --secure --data ./cluster
    kafka-zk up --brokers 1 --data ./cluster -o log.retention.hours=1
    kafka-zk up --zookeeper zk1:2181,zk2:2181/kafka
    """
    interrupt_at_the_end()
    with interrupts.held():
        from kafka_zk.embedded.ports import can_listen

    if port + brokers - 1 > 65535:
        raise click.UsageError(f"{brokers} brokers from port {port} on exceed port 65535")
    properties = _checked({**zookeeper_properties(), **_replication(brokers), **dict(overrides)}, secure)
    may_choose = not zookeeper and not zookeeper_port
    if proxies is None:
        proxies = web_port is not None and zookeeper is None and not _proxy_keys(properties)
    with ExitStack() as cleanup:
        folder = data or _temporary_directory(cleanup)
        cluster = _kind_of_cluster(proxies, properties)(
            folder,
            broker_count=brokers,
            port=port,
            zookeeper=zookeeper,
            zookeeper_port=zookeeper_port or (ZOOKEEPER_PORT if can_listen(ZOOKEEPER_PORT) else 0),
            properties=properties,
            trace=folder / TRACE if trace is None and web_port is not None else trace,
            supervised=supervise,
            secured=secure,
            takes_faults=faults,
        )
        _run(cluster, as_json, may_choose, web_port)


def _kind_of_cluster(proxies: bool, properties: dict[str, str]) -> "type[EmbeddedCluster]":
    with interrupts.held():
        if not proxies:
            from kafka_zk.embedded.cluster import EmbeddedCluster

            return EmbeddedCluster
        from kafka_zk.embedded.proxied_cluster import ProxiedCluster
    if chosen := _proxy_keys(properties):
        raise click.UsageError(f"-o {chosen[0]}: up --proxies sets it for each broker")
    return ProxiedCluster


def _proxy_keys(properties: dict[str, str]) -> list[str]:
    from kafka_zk.embedded.proxied_cluster import PROXY_KEYS

    return sorted(PROXY_KEYS & properties.keys())


def _replication(brokers: int) -> dict[str, str]:
    count = str(min(3, brokers))
    return {"default.replication.factor": count, "offsets.topic.replication.factor": count}


def _checked(properties: dict[str, str], secure: bool) -> dict[str, str]:
    from kafka_zk.broker.config.kafka_config import KafkaConfig
    from kafka_zk.embedded.cluster import LISTENER_KEYS

    if chosen := sorted((CHOSEN_BY_UP | (LISTENER_KEYS if secure else set())) & properties.keys()):
        raise click.UsageError(f"-o {chosen[0]}: up sets it for each broker")
    listeners = {"listeners": "SASL_SSL://:9092", "inter.broker.listener.name": "SASL_SSL"} if secure else {}
    _, warnings = KafkaConfig.from_properties({"zookeeper.connect": "127.0.0.1:2181", **listeners}, properties)
    for warning in warnings:
        note(f"warning: {warning}")
    return properties


def _temporary_directory(cleanup: ExitStack) -> Path:
    with interrupts.held():
        folder = Path(tempfile.mkdtemp(prefix="kafka-zk-"))
        cleanup.push(partial(_remove, folder))
    return folder


def _remove(folder: Path, kind: type[BaseException] | None, error: object, trace: object) -> None:
    failed = kind is not None and issubclass(kind, Exception)
    if not failed or not any(folder.rglob("*.log")):
        with interrupts.held():
            shutil.rmtree(folder, ignore_errors=True)


def _run(cluster: "EmbeddedCluster", as_json: bool, may_choose: bool, web_port: int | None) -> None:
    """Raises KeyboardInterrupt if it arrives before the cluster is ready; afterwards it is the normal end."""
    ready = False
    try:
        _start_zookeeper(cluster, as_json, may_choose)
        if cluster.newly_secured:
            note("the cluster was open; from now on clients have to log in, and the cluster starts only with --secure")
        _start_brokers(cluster, as_json)
        ready = True
        with ExitStack() as cleanup:
            control = _listen(cluster, cleanup)
            _tell_ready(cluster, as_json)
            _watch(cluster, control, _web_page(cluster, web_port, cleanup), as_json, cleanup)
    except KeyboardInterrupt:
        _stop(cluster)
        if not ready:
            raise
    except BaseException:
        cluster.kill()
        raise


def _start_zookeeper(cluster: "EmbeddedCluster", as_json: bool, may_choose: bool) -> None:
    """``may_choose``: use another port for ZooKeeper if the default one is taken."""
    from kafka_zk.embedded.errors import ProcessFailed
    from kafka_zk.embedded.zookeeper import START_TIMEOUT_S

    with waiting("ZooKeeper to answer", START_TIMEOUT_S):
        try:
            cluster.start_zookeeper()
        except ProcessFailed:  # another process may have taken the port after the check
            if not may_choose or cluster.zookeeper is None:
                raise
            cluster.zookeeper.port = 0
            cluster.start_zookeeper()
    if cluster.zookeeper and may_choose and cluster.zookeeper.port != ZOOKEEPER_PORT:
        told = f"port {ZOOKEEPER_PORT} is in use, perhaps by another cluster"
        note(f"{told}: this ZooKeeper listens on port {cluster.zookeeper.port}")
    if cluster.zookeeper:
        _say(as_json, f"zookeeper pid {cluster.zookeeper.pid}", event="zookeeper", pid=cluster.zookeeper.pid)


def _start_brokers(cluster: "EmbeddedCluster", as_json: bool) -> None:
    from kafka_zk.embedded.cluster import START_TIMEOUT_S

    cluster.start_brokers()
    for broker in cluster.brokers:
        _say(
            as_json,
            f"broker {broker.broker_id} pid {broker.pid} port {broker.port}",
            event="broker",
            id=broker.broker_id,
            pid=broker.pid,
            port=broker.port,
        )

    def registered(broker: "BrokerProcess") -> None:
        if as_json:
            print_json({"event": "registered", "id": broker.broker_id})

    ids = ", ".join(str(broker.broker_id) for broker in cluster.brokers)
    with waiting(f"broker{'s' if len(cluster.brokers) > 1 else ''} {ids} to register and lead", START_TIMEOUT_S):
        cluster.wait_ready(on_registered=registered)


def _tell_ready(cluster: "EmbeddedCluster", as_json: bool) -> None:
    bootstrap, zookeeper = cluster.bootstrap, cluster.zookeeper_connect
    line = f"ready bootstrap={bootstrap} zookeeper={zookeeper}"
    leaderless = [str(tp) for tp in sorted(cluster.leaderless)]
    files = _client_files(cluster)
    _say(as_json, line, event="ready", bootstrap=bootstrap, zookeeper=zookeeper, leaderless=leaderless, **files)
    if leaderless:
        note(_complaint(cluster))
    if not as_json:
        _tell_how_to_connect(cluster, files)


def _client_files(cluster: "EmbeddedCluster") -> dict[str, str]:
    if cluster.security is None:
        return {}
    files = cluster.security
    return {"client_properties": str(files.client_file), "librdkafka_properties": str(files.librdkafka_file)}


def _tell_how_to_connect(cluster: "EmbeddedCluster", files: dict[str, str]) -> None:
    variables = {}
    if files:
        say(f"secured client.properties={files['client_properties']}")
        say(f"for kcat -F and other clients on librdkafka: {files['librdkafka_properties']}")
        variables[COMMAND_CONFIG_VARIABLE] = shlex.quote(files["client_properties"])
    if not _found_by_default(cluster):
        variables |= {ZOOKEEPER_VARIABLE: cluster.zookeeper_connect, BOOTSTRAP_VARIABLE: cluster.bootstrap}
    if variables:
        say("other commands find this cluster, in any terminal, after:")
        say("export " + " ".join(f"{name}={value}" for name, value in variables.items()), joint=" \\")


def _say(as_json: bool, line: str, **fields: object) -> None:
    if as_json:
        print_json(fields)
    else:
        say(line)


def _complaint(cluster: "EmbeddedCluster") -> str:
    leaderless = cluster.leaderless
    running = {broker.broker_id for broker in cluster.brokers if broker.alive}
    absent = sorted(set().union(*leaderless.values()) - running)
    count = f"{len(leaderless)} partition{'s have' if len(leaderless) > 1 else ' has'} no leader"
    named = ", ".join(str(tp) for tp in sorted(leaderless)[:NAMED_COUNT]) + (", …" * (len(leaderless) > NAMED_COUNT))
    if not absent:
        return f"{count} ({named}): the log of the controller, broker {cluster.controller_id()}, says why"
    whose = f"broker{'s' if len(absent) > 1 else ''} {', '.join(map(str, absent))}"
    are = "are" if len(absent) > 1 else "is"
    ours = [broker_id for broker_id in absent if (cluster.data_dir / f"broker-{broker_id}").is_dir()]
    hint = f"; start them with --brokers {max(ours) + 1}" if ours else ""
    return f"{count} ({named}): the replicas are on {whose}, which {are} not running{hint}"


def _found_by_default(cluster: "EmbeddedCluster") -> bool:
    """True if commands without options find this cluster in the same environment."""
    from kafka_zk.cli.terminal.zookeeper_client import DEFAULT_ZOOKEEPER
    from kafka_zk.clients.connection.config import parse_bootstrap_servers
    from kafka_zk.clients.connection.errors import ConfigError

    bootstrap = os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP
    zookeeper = os.environ.get(ZOOKEEPER_VARIABLE) or DEFAULT_ZOOKEEPER
    try:
        asked = parse_bootstrap_servers(bootstrap)
    except ConfigError:
        return False
    ours = parse_bootstrap_servers(cluster.bootstrap)
    return zookeeper == cluster.zookeeper_connect and set(asked) <= set(ours)


def _web_page(cluster: "EmbeddedCluster", port: int | None, cleanup: ExitStack) -> "WebPage | None":
    from kafka_zk.cli.cluster.web_page import WebPage

    if port is None:
        return None
    page = WebPage(cluster.data_dir, port)
    cleanup.callback(page.stop)
    return page


def _watch(
    cluster: "EmbeddedCluster",
    control: "ControlSocket | None",
    page: "WebPage | None",
    as_json: bool,
    cleanup: ExitStack,
) -> None:
    from kafka_zk.cli.cluster.cluster_actions import ClusterActions

    def did(action: str, target: str, broker: "BrokerProcess | None") -> None:
        if as_json:
            print_json({"event": action, **({"id": broker.broker_id, "pid": broker.pid} if broker else {"of": target})})
        else:
            note(f"kafka-zk break {action} {target}: done")

    actions = ClusterActions(cluster, did)
    cleanup.callback(actions.stop)
    killed = actions.faults.killed
    ended: set[BrokerProcess | EmbeddedZooKeeper] = set()
    while True:
        ended &= {each for each in (*cluster.brokers, cluster.zookeeper) if each and not each.alive}
        ended |= _tell_ended(cluster, ended, killed, as_json)
        if page is not None and (news := page.news()):
            _say(as_json, news, event="web", message=news)
        if not killed and not any(broker.alive for broker in cluster.brokers):
            raise CommandFailed("no broker is left")
        if control is None:
            time.sleep(WATCH_INTERVAL_S)
        else:
            control.serve(WATCH_INTERVAL_S, actions.answer)


def _tell_ended(
    cluster: "EmbeddedCluster", told: "Set[BrokerProcess | EmbeddedZooKeeper]", killed: "Set[int]", as_json: bool
) -> "set[BrokerProcess | EmbeddedZooKeeper]":
    died = {broker for broker in cluster.brokers if broker.broker_id not in killed}
    watched: set[BrokerProcess | EmbeddedZooKeeper] = {*died, *([cluster.zookeeper] if cluster.zookeeper else [])}
    ended = {each for each in watched - told if not each.alive}
    for each in ended:
        end = each.process.describe_end()
        note(f"{end}; to start it again: {each.restart_command}")
        if as_json:
            print_json({"event": "ended", "message": end, "restart": each.restart_command})
    return ended


def _listen(cluster: "EmbeddedCluster", cleanup: ExitStack) -> "ControlSocket | None":
    from kafka_zk.embedded.control_socket import ControlSocket

    try:
        control = ControlSocket(cluster.data_dir)
    except OSError as error:
        note(f"kafka-zk break cannot reach this cluster: {error}")
        return None
    cleanup.callback(control.close)
    return control


def _stop(cluster: "EmbeddedCluster") -> None:
    from kafka_zk.embedded.cluster import STOP_TIMEOUT_S

    try:
        with waiting("brokers and ZooKeeper to end", STOP_TIMEOUT_S):
            complaints = cluster.stop()
    except KeyboardInterrupt:  # a second Ctrl-C
        cluster.kill()
        raise CommandFailed("stopped by force") from None
    if complaints:
        raise CommandFailed("; ".join(complaints))
