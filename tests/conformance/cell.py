"""Runs one cell of the table: one client, one fault, one seed."""

import random
import shlex
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from kafka_zk import BlockingAdmin, BlockingProducer, BlockingReader, TopicPartition
from kafka_zk.base.clock import monotonic_s
from kafka_zk.embedded.faults import FaultHandle
from kafka_zk.testing.cluster import Cluster
from tests.conformance.clients import Client
from tests.conformance.faults import Fault, Role, When
from tests.conformance.judge import DONE, Event, Truth, Verdict, judge
from tests.conformance.program import NoAnswer, Program, ProgramEnded

FOLDER = Path(__file__).resolve().parents[2] / "target" / "conformance"
STUCK_S = 90
"""Longer than every client takes to give up a record."""
FIRE_S = 60
PAUSE_S = 0.05
LARGEST_BATCH = 5
PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "1",
    "group.min.session.timeout.ms": "1000",
}


class Cell(NamedTuple):
    """The result of a cell. ``objections``: the findings that the fault does not excuse."""

    client: str
    fault: str
    seed: int
    verdict: Verdict
    objections: list[str]
    trace: list[Event]

    @property
    def command(self) -> str:
        """Repeats the cell."""
        return shlex.join(["python", "-m", "tests.conformance", self.client, self.fault, "--seed", str(self.seed)])


class NotApplicable(Exception):
    """The client cannot play the role that the fault hits."""


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Three brokers that take faults and replicate groups and transactions."""
    with Cluster(brokers=3, properties=PROPERTIES) as cluster:
        yield cluster


def run_cell(cluster: Cluster, client: Client, fault: Fault, seed: int) -> Cell:
    """Raises: NotApplicable; NeverFired if the fault did not hit the client, so that there is no verdict."""
    if fault.role not in client.roles:
        raise NotApplicable(f"{client.name} cannot be tested with {fault.name}: it has no role {fault.role.value!r}")
    name = f"{client.name}-{fault.name}-{uuid.uuid4().hex[:8]}"
    with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic(name, 1, 3)
    cluster.wait_ready()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        application = _Application(cluster, client, fault.role, name, random.Random(seed), stack)
        _play(application, fault)
    verdict = judge(application.trace, _truth(cluster, fault.role, name), reads=fault.role is Role.MEMBER)
    return Cell(client.name, fault.name, seed, verdict, verdict.objections(fault.excuses), application.trace)


def _play(application: "_Application", fault: Fault) -> None:
    if fault.when is not When.BEFORE:
        application.start()
        for _ in range(application.random.randint(2, 4)):
            application.work()
    if fault.when is When.REJOIN:
        application.leave()
    handle = application.begin(fault)
    try:
        if fault.when is not When.DURING:
            application.start()
        _work_until_fired(application, handle)
    finally:
        handle.end()
    handle.check_fired()
    application.tell("ended")
    application.recover()
    application.leave()
    if fault.role is Role.MEMBER:  # another member finds what was committed
        application.start()
        application.work()
        application.leave()


def _work_until_fired(application: "_Application", handle: FaultHandle) -> None:
    """Work until the fault has fired, and a little longer."""
    deadline_s = monotonic_s() + FIRE_S
    while True:
        application.work()
        if handle.fired or monotonic_s() > deadline_s:
            break
        time.sleep(PAUSE_S)
    for _ in range(2):
        application.work()


def _truth(cluster: Cluster, role: Role, name: str) -> Truth:
    """What other clients find once the markers of the last transaction are written. (The response to EndTxn comes
    before that.)"""
    tp = TopicPartition(name, 0)
    with BlockingReader(bootstrap_servers=cluster.bootstrap, isolation_level="read_uncommitted") as reader:
        ends = reader.end_offsets([tp])
    with BlockingReader(bootstrap_servers=cluster.bootstrap, isolation_level="read_committed") as reader:
        reader.assign({tp: "earliest"})
        records = [record for records in reader.batches(ends) for record in records]
    log = tuple(int(record.value) for record in records)
    if role not in (Role.OFFSETS, Role.MEMBER):
        return Truth(log)
    with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        committed = admin.groups.stable_offsets(name, [tp])[tp]
    return Truth(log, max(0, committed))


class _Application:
    """A small application on the client: it works in batches, and replaces a client that is of no more use.

    ``stack``: ends everything that it starts.
    """

    def __init__(
        self, cluster: Cluster, client: Client, role: Role, name: str, rng: random.Random, stack: ExitStack
    ) -> None:
        self.random = rng
        self.trace: list[Event] = []
        self._cluster = cluster
        self._role = role
        self._name = name
        self._command = [*client.command(), role.value, cluster.bootstrap, name]
        self._errors = FOLDER / f"{name}.log"
        self._next = 0
        self._program: Program
        self._stack = stack
        self._writer: BlockingProducer | None = None  # of what a member reads
        if role is Role.MEMBER:
            self._writer = stack.enter_context(BlockingProducer(bootstrap_servers=cluster.bootstrap))

    def start(self) -> None:
        self._program = Program(self._command, self._errors)
        self._stack.callback(self._program.kill)

    def begin(self, fault: Fault) -> FaultHandle:
        handle = fault.begin(self._cluster, self._name)
        self.tell("began")
        return handle

    def tell(self, kind: str, values: tuple[int, ...] = ()) -> None:
        self.trace.append(Event(monotonic_s(), kind, values))

    def work(self) -> bool:
        """One batch. Returns False if the client did not succeed."""
        count = self.random.randint(1, LARGEST_BATCH)
        values = tuple(range(self._next, self._next + count))
        self._next += count
        self.tell("fed", values)
        try:
            self._feed(values)
            return self._answered(values)
        except ProgramEnded:
            self._replace()
        except NoAnswer:
            self.tell("stuck")
            self._replace()
        return False

    def _feed(self, values: tuple[int, ...]) -> None:
        if self._writer is None:
            self._program.feed(values)
            return
        for future in [self._writer.send(self._name, b"%d" % value, partition=0) for value in values]:
            future.result(STUCK_S)

    def _answered(self, values: tuple[int, ...]) -> bool:
        """Read events until each value is done or refused. A member is done with the last of them."""
        deadline_s, left, succeeded = monotonic_s() + STUCK_S, set(values), True
        while left:
            event = self._program.next_event(deadline_s)
            self.trace.append(event)
            if event.kind == "read":
                continue
            succeeded = event.kind in DONE
            if self._role is Role.MEMBER and (not succeeded or max(event.values) >= values[-1]):
                break
            left -= set(event.values)
        return succeeded

    def recover(self) -> None:
        """Work until three batches succeed in a row. A client that refuses three in a row is replaced, once."""
        for _ in range(2):
            if any(all([self.work() for _ in range(3)]) for _ in range(2)):
                return
            self._replace()
        self.tell("stuck")

    def _replace(self) -> None:
        self._program.kill()
        self.tell("replaced")
        self.start()

    def leave(self) -> None:
        try:
            self.trace += self._program.end()
        except NoAnswer:
            self.tell("stuck")
