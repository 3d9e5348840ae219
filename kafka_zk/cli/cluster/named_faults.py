"""``kafka-zk break fault``, ``faults`` and ``end-faults``: named faults in a cluster started with ``kafka-zk up
--faults``."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from kafka_zk.broker.faults.arguments import NUMBERS
from kafka_zk.broker.faults.errors import InvalidFault
from kafka_zk.broker.faults.fault import KINDS, read_fault
from kafka_zk.cli.cluster.running_cluster import RunningCluster, find_cluster
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import json_option, zookeeper_option
from kafka_zk.cli.terminal.output import note, print_json, say
from kafka_zk.cli.terminal.properties import KEY_VALUE
from kafka_zk.embedded.fault_client import BrokerGone, CarriedOutElsewhere, FaultClient
from kafka_zk.embedded.fault_token import FAULTS_FILE

_NAMES = [name for name in KINDS if name != "intercept"]  # intercept needs a program whose functions it calls
_OF_ONE_BROKER = frozenset({"expire_session", "disk_full"})

Document = dict[str, Any]


def _on_a_cluster(function: Callable[..., None]) -> Callable[..., None]:
    where = click.option(
        "--data", type=click.Path(path_type=Path, file_okay=False), help="The data directory of the cluster."
    )
    which = zookeeper_option("The cluster with this ZooKeeper.", envvar="KAFKA_ZK_ZOOKEEPER")
    return which(where(json_option(function)))


@click.command("fault", short_help="Begin a named fault, such as error or fence.")
@click.argument("name", metavar="FAULT", type=click.Choice(_NAMES))
@click.argument("arguments", metavar="[KEY=VALUE]...", type=KEY_VALUE, nargs=-1)
@click.option("--broker", type=int, help="Only at the broker with this id.  [default: at all brokers]")
@_on_a_cluster
def fault(
    name: str,
    arguments: tuple[tuple[str, str], ...],
    broker: int | None,
    data: Path | None,
    zookeeper: str | None,
    as_json: bool,
) -> None:
    """Begin a named fault: coordinator_moves, leader_moves, error, drop_answer, throttle, slow_fetch, fence,
    rebalance_amid_commit, out_of_order_sequence, expire_session, disk_full or clock_step.

    docs/how-to/testing.md describes their arguments and filters. A fault acts until kafka-zk break end-faults, unless
    it happens only once or has fired as often as requested. This needs a cluster of kafka-zk up --faults.

    \b
    kafka-zk break fault error api=Produce code=NOT_LEADER_OR_FOLLOWER topic=flights times=3
    kafka-zk break fault slow_fetch ms=500 client_id=app
    kafka-zk break fault coordinator_moves
    """
    request = {"fault": name, **{key: _value(key, text) for key, text in arguments}}
    try:
        read_fault(1, request)
    except InvalidFault as error:
        raise CommandFailed(str(error)) from None
    if name in _OF_ONE_BROKER and broker is None:
        raise CommandFailed(f"{name} needs --broker")
    told = _begun(find_cluster(data, zookeeper), request, broker)
    _tell(as_json, told, "kafka-zk break faults shows how often it fires; kafka-zk break end-faults ends it")


@click.command("faults", short_help="Show the named faults that have not ended.")
@_on_a_cluster
def faults(data: Path | None, zookeeper: str | None, as_json: bool) -> None:
    """Show the named faults of each broker that have not ended, and how often they have fired."""
    found = _at_all(find_cluster(data, zookeeper), lambda _, open_fault: open_fault)
    _tell(as_json, found, "" if found else "there are no faults")


@click.command("end-faults", short_help="End all named faults.")
@_on_a_cluster
def end_faults(data: Path | None, zookeeper: str | None, as_json: bool) -> None:
    """End all named faults, and show how often each has fired."""
    ended = _at_all(find_cluster(data, zookeeper), lambda client, open_fault: client.end(open_fault["id"]))
    _tell(as_json, ended, "" if ended else "there are no faults")


def _value(key: str, text: str) -> str | int:
    try:
        return int(text) if key in NUMBERS else text
    except ValueError:
        return text  # ``read_fault`` rejects it: not a number


def _clients(cluster: RunningCluster) -> dict[int, FaultClient]:
    """A client of each broker's API for faults, by broker id. Raises: CommandFailed."""
    clients = {}
    for broker_id in cluster.broker_ids:
        try:
            document = json.loads(Path(cluster.data, f"broker-{broker_id}", FAULTS_FILE).read_text())
        except FileNotFoundError:
            raise CommandFailed("this cluster takes no named faults: start it with kafka-zk up --faults") from None
        clients[broker_id] = FaultClient(document["port"], document["token"])
    return clients


def _at_all(cluster: RunningCluster, ask: Callable[[FaultClient, Document], Document]) -> list[Document]:
    """The results of ``ask`` for each open fault of each broker. Notes on stderr name brokers that do not respond."""
    found: list[Document] = []
    for broker_id, client in _clients(cluster).items():
        if broker_id in cluster.paused_broker_ids:
            note(f"broker {broker_id} is paused")
            continue
        try:
            found += [{"broker": broker_id, **ask(client, open_fault)} for open_fault in client.open_faults()]
        except BrokerGone as error:
            note(f"broker {broker_id} does not respond: {error}")
    return found


def _begun(cluster: RunningCluster, request: Document, broker_id: int | None) -> list[Document]:
    """Begin the fault at every broker, or at none if one of them fails.

    A fault of kind ``at_one`` begins at a single broker, which acts for all.

    Raises: FaultRefused, CommandFailed.
    """
    at_one = KINDS[request["fault"]].at_one
    clients = _chosen(cluster, broker_id, at_one=at_one)
    told: list[Document] = []
    refusal: CarriedOutElsewhere | BrokerGone | None = None
    with ExitStack() as undo:
        for number, client in clients.items():
            try:
                begun = client.begin(request)
            except (CarriedOutElsewhere, BrokerGone) as error:
                refusal = error
                continue
            undo.callback(client.end, begun["id"])
            told.append({"broker": number, **begun})
            if at_one:
                break
        undo.pop_all()
    if refusal is not None and not told:
        raise refusal
    return told


def _chosen(cluster: RunningCluster, broker_id: int | None, *, at_one: bool) -> dict[int, FaultClient]:
    """The brokers where a fault begins. Raises: CommandFailed if there is no such broker, or if one is paused."""
    clients = _clients(cluster)
    if broker_id is not None and broker_id not in clients:
        raise CommandFailed(f"there is no broker {broker_id}: this cluster has {', '.join(map(str, clients))}")
    chosen = {number: client for number, client in clients.items() if broker_id in (None, number)}
    paused = sorted(chosen.keys() & cluster.paused_broker_ids)
    if paused and not (at_one and len(paused) < len(chosen)):
        raise CommandFailed(f"broker {paused[0]} is paused: kafka-zk break resume {paused[0]}")
    return {number: client for number, client in chosen.items() if number not in paused}


def _tell(as_json: bool, told: list[Document], sentence: str) -> None:
    if as_json:
        print_json(told)
        return
    for each in told:
        arguments = "".join(f" {key}={value}" for key, value in each.items() if key not in _SHOWN)
        times = "1 time" if each["fired"] == 1 else f"{each['fired']} times"
        say(f"broker {each['broker']}: fault {each['id']}, {each['fault']}{arguments}, has fired {times}")
    if sentence:
        say(sentence)


_SHOWN = ("broker", "id", "fault", "fired")
