"""The replication campaign in a cluster of both kinds of brokers. Brokers have faults, partitions move among four
brokers, and ZooKeeper restarts or is paused.
"""

import json
import random
import threading
from collections.abc import Callable
from types import MappingProxyType

from tests.peers.clusters.mixed_cluster import reassign
from tests.peers.processes import wait_until
from tests.soak.replicated_cluster import SESSION_TIMEOUT_S, Kind, ReplicatedCluster
from tests.soak.replication_rounds import PARTITIONS, REPLICAS, TOPIC, ReplicationRounds

BROKER, MOVE, ZOOKEEPER_RESTART, ZOOKEEPER_PAUSE = "broker", "move", "ZooKeeper restarts", "ZooKeeper stands still"
_HAPPENINGS = (BROKER, BROKER, BROKER, MOVE, ZOOKEEPER_RESTART, ZOOKEEPER_PAUSE)
_TOOL_S = 60
_MOVED_S = 90


class JvmRounds(ReplicationRounds):
    """JVMs need more time on a busy machine.

    librdkafka has one request in flight, because it would otherwise duplicate records: a leader of Kafka lets the
    acks=all wait of one request time out, refuses the next one for a lack of replicas, and considers the one behind it
    a gap (45). librdkafka then sends all of them again with a new epoch, including the first one, which is already
    stored.
    """

    librdkafka = MappingProxyType({"max.in.flight.requests.per.connection": 1})
    machine_s = 30.0
    isr_full_s = 90.0


class MixedRounds(JvmRounds):
    """``kind`` is the kind of the controller when a round begins."""

    def __init__(self, cluster: ReplicatedCluster, seed: int, kind: Kind) -> None:
        protocol = cluster.properties["inter.broker.protocol.version"]
        self.kind = f"replication, moves and ZooKeeper, protocol {protocol}, controller {kind.name}"
        self._kind = kind
        self._what = random.Random(seed + 1_000_000)
        cluster.move_controller(kind)
        super().__init__(cluster, seed)

    def _round(self, number: int) -> None:
        self._cluster.move_controller(self._kind)
        happening = self._what.choice(_HAPPENINGS)
        begin: dict[str, Callable[[], None]] = {
            MOVE: self._move, ZOOKEEPER_RESTART: self._cluster.zookeeper.restart, ZOOKEEPER_PAUSE: self._pause_zookeeper
        }  # fmt: skip
        if happening != BROKER:
            self._say(f"{happening}:")
            begin[happening]()
        super()._round(number)
        self._end_moves()
        self._measure_full()

    def _pause_zookeeper(self) -> None:
        """Pause ZooKeeper, possibly for longer than a session. No session ends, because ZooKeeper measures time only
        while it runs.
        """
        self._cluster.zookeeper.pause()
        threading.Event().wait(SESSION_TIMEOUT_S * self._what.uniform(0.3, 1.5))
        self._cluster.zookeeper.resume()

    def _move(self) -> None:
        """Assign new replicas to two partitions, by a file for the tools of both kinds; the next fault happens during
        the move.
        """
        moves = [
            {"topic": TOPIC, "partition": number, "replicas": self._what.sample(self._cluster.ids, REPLICAS)}
            for number in self._what.sample(range(PARTITIONS), 2)
        ]
        file = self._cluster.folder / "moves.json"
        file.write_text(json.dumps({"version": 1, "partitions": moves}))
        self._say(f"moves: {moves}")
        bootstrap = self._cluster.bootstrap
        wait_until(lambda: reassign(bootstrap, "--execute", file), _TOOL_S, "the moves to begin", interval_s=1)

    def _end_moves(self) -> None:
        wait_until(lambda: not self._cluster.moving(TOPIC), _MOVED_S, "the moves to end", interval_s=0.2)

    def _logs(self) -> dict[int, dict[int, bytes]]:
        """The logs of assigned replicas only, because a replica that was removed from a dead broker may stay there."""
        assigned = self._cluster.assignment(TOPIC)
        return {
            number: {broker_id: log for broker_id, log in replicas.items() if broker_id in assigned[number]}
            for number, replicas in super()._logs().items()
        }
