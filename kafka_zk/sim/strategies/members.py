"""The strategies that are compared, and members that process one record after another.

With ``max.poll.records=1``, a member can stop between two records, like a program that processes each record before it
asks for the next.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka_zk.clients.connection.waiting import sleep
from kafka_zk.sim.scenarios.stage import Stage
from kafka_zk.sim.world.clients import SimBrokerMember, SimGroupMember, SimMember

TOPIC = "orders"
CAPACITIES: Mapping[str, int] = {"anna": 2, "ben": 1, "cara": 1}
RECORD_MS = 80
"""The time that a member of capacity 1 takes for a record. A member of capacity 2 takes half of it."""


class Strategy(NamedTuple):
    """``assignor``: the value of ``partition.assignment.strategy``. ``how``: what a rebalance does."""

    name: str
    assignor: str
    in_zookeeper: bool
    how: str


STRATEGIES = (
    Strategy("eager", "range", True, "Every member stops and releases all partitions, then claims its new ones."),
    Strategy(
        "eager",
        "range",
        False,
        "Every member stops, gives up all partitions and joins again; the coordinator waits for all of them.",
    ),
    Strategy("sticky", "sticky", True, "Every member stops, as with eager, but most partitions return to their owner."),
    Strategy(
        "cooperative",
        "cooperative-sticky",
        False,
        "Only partitions that move stop: a first round takes them from their owners, a second one assigns them.",
    ),
    Strategy("weighted", "weighted", True, "Only partitions that move stop; shares follow the members' capacities."),
)


class Processed(NamedTuple):
    """``began_ms``: when the member received the record. ``ended_ms``: when it asked for the next one."""

    began_ms: float
    ended_ms: float
    member: str
    value: str


class Worker(SimGroupMember):
    """``busy_ms``: additional time that its next record takes. ``left_ms``: when it began to close its consumer."""

    busy_ms = 0.0
    left_ms: float | None = None
    processed: list[Processed]
    _leaves = False

    def leave(self) -> None:
        """Finish the current record, or wait for a record for at most one poll, then close."""
        self._leaves = True

    async def _read(self) -> None:
        while not self._leaves:
            for record in await self.consumer.poll(500):
                began_ms = self._world.now_ms
                each_ms, self.busy_ms = RECORD_MS / CAPACITIES[self.name] + self.busy_ms, 0.0
                await sleep(self.process, each_ms / 1000)
                assert record.value is not None
                ended_ms, value = self._world.now_ms, record.value.decode()
                self.processed.append(Processed(began_ms, ended_ms, self.name, value))
        self.left_ms = self._world.now_ms
        await self.consumer.commit()  # a close alone does not count the last record as processed
        await self.consumer.close()
        self.is_over = True


class _ZookeeperWorker(Worker, SimMember):
    pass


class _BrokerWorker(Worker, SimBrokerMember):
    pass


def join(stage: Stage, strategy: Strategy, name: str, processed: list[Processed]) -> Worker:
    """A member that joins the strategy's group now, and adds to ``processed``."""
    made: Worker
    if strategy.in_zookeeper:
        options: dict[str, Any] = {"partition_assignment_strategy": strategy.assignor}
        if strategy.assignor == "weighted":
            options["consumer_capacity"] = CAPACITIES[name]
        made = _ZookeeperWorker(stage.world, name, TOPIC, stage.history, max_poll_records=1, **options)
    else:
        made = _BrokerWorker(stage.world, name, TOPIC, stage.history, strategy.assignor, max_poll_records=1)
    made.processed = processed
    return made
