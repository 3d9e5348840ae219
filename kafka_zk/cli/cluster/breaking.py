"""``kafka-zk break``: faults for the brokers and members of a cluster started with ``kafka-zk up``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kafka_zk.cli.cluster.named_faults import end_faults, fault, faults
from kafka_zk.cli.cluster.running_cluster import RunningCluster, find_cluster
from kafka_zk.cli.cluster.workload import BROKER, MOST_RATE, ZOOKEEPER
from kafka_zk.cli.terminal.command_group import CommandGroup
from kafka_zk.cli.terminal.options import json_option, zookeeper_option
from kafka_zk.cli.terminal.output import print_json, say

TOPIC = "flights"
WATCH = "kafka-zk watch --cluster"


@click.group("break", cls=CommandGroup, short_help="Kill, pause, expire or cut off a broker of kafka-zk up.")
def command() -> None:
    """Break a broker of a cluster that kafka-zk up runs on this machine, and repair it; start and end members and
    producers there. The page of kafka-zk up --web does the same with buttons.

    BROKER is a broker's id, or "controller" for the current controller. If several clusters run, choose one with --data
    or --zookeeper.

    \b
    kafka-zk up --brokers 3 --trace ./trace          in one terminal
    kafka-zk watch --cluster --trace ./trace         in another
    kafka-zk break kill controller                   in a third
    kafka-zk break produce flights --rate 10
    kafka-zk break join board --topic flights
    kafka-zk break crash board/anna

    \b
    kafka-zk up --faults                             also takes named faults
    kafka-zk break fault drop_answer api=Produce topic=flights
    """


def _on_a_broker(function: Callable[..., None]) -> Callable[..., None]:
    """``function`` receives the cluster, the broker's id, and its options."""

    def run(broker: str, data: Path | None, zookeeper: str | None, **options: Any) -> None:
        cluster = find_cluster(data, zookeeper)
        function(cluster, cluster.broker_id(broker), **options)

    run.__doc__ = function.__doc__
    run.__name__ = function.__name__
    return _on_a_cluster(click.argument("broker", metavar="BROKER")(run))


def _on_a_cluster(function: Callable[..., None]) -> Callable[..., None]:
    where = click.option(
        "--data", type=click.Path(path_type=Path, file_okay=False), help="The data directory of the cluster."
    )
    which = zookeeper_option("The cluster with this ZooKeeper.", envvar="KAFKA_ZK_ZOOKEEPER")
    return which(where(json_option(function)))


@command.command("kill", short_help="Kill a broker, as a crash would.")
@_on_a_broker
def kill(cluster: RunningCluster, broker_id: int, as_json: bool) -> None:
    """Kill a broker with SIGKILL, as a crash would."""
    state = cluster.do("kill", broker_id)
    ends = "is closed at once" if cluster.supervised else f"ends in at most {cluster.session_s:g} s"
    told = f"broker {broker_id} was killed; its session {ends}, then others lead its partitions: {WATCH} shows it"
    _tell(as_json, state, f"{told}; kafka-zk break restart {broker_id} starts it again")


@command.command("restart")
@_on_a_broker
def restart(cluster: RunningCluster, broker_id: int, as_json: bool) -> None:
    """Start a broker that has ended."""
    state = cluster.do("restart", broker_id)
    waits = f" once its old session is over, at most {cluster.session_s:g} s after its death,"
    told = f"broker {broker_id} starts as pid {state['pid']}; it registers{'' if cluster.supervised else waits} and"
    _tell(as_json, state, f"{told} catches up with the leaders: {WATCH}")


@command.command("pause", short_help="Stop a broker's process; its connections stay open.")
@_on_a_broker
def pause(cluster: RunningCluster, broker_id: int, as_json: bool) -> None:
    """Stop a broker's process with SIGSTOP. Its connections stay open, but no request is answered."""
    state = cluster.do("pause", broker_id)
    told = f"broker {broker_id} is paused; its session ends in {cluster.session_s:g} s unless"
    _tell(as_json, state, f"{told} kafka-zk break resume {broker_id} comes first: {WATCH} shows it")


@command.command("resume")
@_on_a_broker
def resume(cluster: RunningCluster, broker_id: int, as_json: bool) -> None:
    """Continue a paused broker with SIGCONT."""
    state = cluster.do("resume", broker_id)
    told = f"broker {broker_id} continues; if its session is over, it registers again and learns what it leads now"
    _tell(as_json, state, f"{told}: {WATCH} shows it")


@command.command("expire", short_help="End a broker's ZooKeeper session now.")
@_on_a_broker
def expire(cluster: RunningCluster, broker_id: int, as_json: bool) -> None:
    """End a broker's ZooKeeper session now, as a timeout would, even if the broker was killed."""
    session_id = cluster.expire(broker_id)
    told = f"the session {session_id:#x} of broker {broker_id} is over, and its znodes are gone; if it runs, it"
    _tell(as_json, {"id": broker_id, "session": session_id}, f"{told} registers in a new session: {WATCH} shows it")


_links_option = click.option(
    "--from",
    "links",
    type=click.Choice(["zookeeper", "brokers"]),
    multiple=True,
    help="Only from these; may be repeated.  [default: from both]",
)


@command.command("cut", short_help="Cut a broker off from ZooKeeper and other brokers.")
@_links_option
@_on_a_broker
def cut(cluster: RunningCluster, broker_id: int, links: tuple[str, ...], as_json: bool) -> None:
    """Cut a broker off from ZooKeeper and from the other brokers, until it is mended; clients still reach it.

    Only for clusters that were started with kafka-zk up --proxies, or --web.
    """
    state = cluster.do("cut", broker_id, **{"from": links})
    off = " and ".join({"zookeeper": "ZooKeeper", "brokers": "the other brokers"}[link] for link in state["cut"][::-1])
    ends = f"; its session ends in {cluster.session_s:g} s" if "zookeeper" in state["cut"] else ""
    told = f"broker {broker_id} is cut off from {off}{ends}: {WATCH} shows it"
    _tell(as_json, state, f"{told}; kafka-zk break mend {broker_id} connects it again")


@command.command("delay", short_help="Slow down a broker's connections to ZooKeeper and other brokers.")
@click.option("--ms", type=click.IntRange(1, 60_000), required=True, help="The delay in each direction.")
@_links_option
@_on_a_broker
def delay(cluster: RunningCluster, broker_id: int, ms: int, links: tuple[str, ...], as_json: bool) -> None:
    """Delay the traffic between a broker and ZooKeeper or the other brokers, until it is mended.

    Only for clusters that were started with kafka-zk up --proxies, or --web.
    """
    state = cluster.do("delay", broker_id, ms=ms, **{"from": links})
    names = {"zookeeper": "ZooKeeper", "brokers": "the other brokers"}
    slow = " and ".join(names[each] for each in state["delay_ms"] if each in (links or names))
    told = f"traffic between broker {broker_id} and {slow} is delayed by {ms} ms each way: {state['expected']}"
    _tell(as_json, state, f"{told} kafka-zk break mend {broker_id} ends the delay")


@command.command("fill-disk", short_help="Stop all files of a broker from growing.")
@_on_a_broker
def fill_disk(cluster: RunningCluster, broker_id: int, as_json: bool) -> None:
    """Prevent all files of a broker's process from growing (RLIMIT_FSIZE), as on a full disk; Linux only.

    Writes fail with EFBIG instead of ENOSPC; the broker handles both in the same way.
    """
    _print_expected(as_json, cluster.do("fill-disk", broker_id), f"the disk of broker {broker_id} is full")


@command.command("free-disk")
@_on_a_broker
def free_disk(cluster: RunningCluster, broker_id: int, as_json: bool) -> None:
    """Let the files of a broker grow again."""
    _print_expected(as_json, cluster.do("free-disk", broker_id), f"the disk of broker {broker_id} has room again")


@command.command("join", short_help="Start a member of a group.")
@click.argument("group", metavar="GROUP")
@click.option("--topic", default=TOPIC, show_default=True, help="What it reads; created if it does not exist.")
@click.option("--type", "kind", type=click.Choice([ZOOKEEPER, BROKER]), default=ZOOKEEPER, show_default=True)
@click.option("--name", help="Its name.  [default: anna, ben, cleo …]")
@_on_a_cluster
def join(
    group: str, topic: str, kind: str, name: str | None, data: Path | None, zookeeper: str | None, as_json: bool
) -> None:
    """Start a member of a group: a kafka-zk consume, which ends with the cluster."""
    request = {"action": "join", "group": group, "topic": topic, "type": kind, "name": name}
    state = find_cluster(data, zookeeper).ask(request)
    _print_expected(as_json, state, f"{state['member']} starts as pid {state['pid']}")


@command.command("leave")
@click.argument("member", metavar="GROUP/NAME")
@_on_a_cluster
def leave(member: str, data: Path | None, zookeeper: str | None, as_json: bool) -> None:
    """Make a member that was started here leave its group."""
    state = find_cluster(data, zookeeper).ask({"action": "leave", "member": member})
    _print_expected(as_json, state, f"{member} leaves")


@command.command("crash")
@click.argument("member", metavar="GROUP/NAME")
@_on_a_cluster
def crash(member: str, data: Path | None, zookeeper: str | None, as_json: bool) -> None:
    """Kill a member that was started here, with SIGKILL."""
    state = find_cluster(data, zookeeper).ask({"action": "crash", "member": member})
    _print_expected(as_json, state, f"{member} was killed")


@command.command("produce", short_help="Have records written to a topic at a rate.")
@click.argument("topic", metavar="TOPIC", default=TOPIC)
@click.option("--rate", type=click.IntRange(0, MOST_RATE), required=True, help="Records a second; 0 ends it.")
@_on_a_cluster
def produce(topic: str, rate: int, data: Path | None, zookeeper: str | None, as_json: bool) -> None:
    """Have a producer write numbered records to a topic, created if it does not exist; repeat to change the rate."""
    state = find_cluster(data, zookeeper).ask({"action": "produce", "topic": topic, "rate": rate})
    _print_expected(as_json, state, f"{rate} records a second to {topic}")


command.add_command(fault)
command.add_command(faults)
command.add_command(end_faults)


@command.command("mend")
@_on_a_broker
def mend(cluster: RunningCluster, broker_id: int, as_json: bool) -> None:
    """Remove the cuts and delays of a broker's connections."""
    state = cluster.do("mend", broker_id)
    told = f"broker {broker_id} can connect again; if its session is over it registers in a new one"
    _tell(as_json, state, f"{told}: {WATCH} shows it")


def _print_expected(as_json: bool, state: dict[str, Any], sentence: str) -> None:
    _tell(as_json, state, f"{sentence}. {state['expected']}")


def _tell(as_json: bool, document: dict[str, Any], sentence: str) -> None:
    if as_json:
        print_json(document)
    else:
        say(sentence)
