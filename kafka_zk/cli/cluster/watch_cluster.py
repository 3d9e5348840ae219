"""``kafka-zk watch --cluster``: brokers, controller, leaders and ISRs, live."""

import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import click

from kafka_zk.base.events import Event
from kafka_zk.broker.controller.events import ControllerEvent
from kafka_zk.broker.process.events import ClientsSeen
from kafka_zk.broker.replica.events import ReplicaEvent
from kafka_zk.broker.security.events import Denied
from kafka_zk.cli.cluster.running_cluster import find_cluster
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.output import note
from kafka_zk.cli.terminal.zookeeper_client import DEFAULT_ZOOKEEPER, zookeeper_session
from kafka_zk.recorder.timeline.cluster_lines import ClusterEvents, ClusterLines
from kafka_zk.recorder.timeline.cluster_observer import ClusterObserver
from kafka_zk.recorder.timeline.event_codec import encode
from kafka_zk.recorder.timeline.trace_file import TraceFollower
from kafka_zk.recorder.zookeeper_health.follower import HealthFollower
from kafka_zk.registry.client.events import RegistryEvent

POLL_MS = 100
_SHOWN = (ControllerEvent, ReplicaEvent, RegistryEvent, ClientsSeen, Denied)
"""Events of brokers' traces that concern the cluster, not a group."""


def watch_cluster(zookeeper: str | None, trace: Path | None, timeout_s: float, *, verbose: bool, as_json: bool) -> None:
    """Print events until the time is over. Raises CommandFailed, RegistryError."""
    end_s = time.monotonic() + timeout_s
    if trace is None:
        zookeeper, trace = _found(zookeeper)
    follower = TraceFollower(trace, from_start=False) if trace is not None else None
    if follower is None:
        note("the brokers' own steps are shown only if the brokers write traces: kafka-zk up --trace DIR")
    events = ClusterEvents()
    lines = ClusterLines(events, verbose=verbose)

    def tell(now_ms: int | None) -> None:
        for traced in follower.read() if follower is not None else ():
            if isinstance(traced.event, _SHOWN):
                events.add(traced.event)
        for event in health.events():
            events.add(event)
        for line in map(_document, events.due(now_ms)) if as_json else lines.lines(now_ms):
            click.echo(line)
        sys.stdout.flush()

    servers = zookeeper or DEFAULT_ZOOKEEPER
    with zookeeper_session(servers) as client, ExitStack() as cleanup:
        health = HealthFollower(servers, lambda: client.state)
        cleanup.callback(health.close)
        cleanup.callback(tell, None)
        observer = ClusterObserver(client, events.add)
        cleanup.callback(observer.close)
        told = False
        while time.monotonic() < end_s:
            client.process(POLL_MS)
            if observer.unwatched and not told:
                told = True
                note(f"the states of {len(observer.unwatched)} more partitions are not watched")
            tell(int(time.time() * 1000))


def _found(zookeeper: str | None) -> tuple[str | None, Path | None]:
    try:
        cluster = find_cluster(None, zookeeper)
    except CommandFailed:
        return zookeeper, None
    return cluster.zookeeper, cluster.trace


def _document(event: Event) -> str:
    return json.dumps(encode(event))
