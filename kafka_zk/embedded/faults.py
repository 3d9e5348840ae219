"""Named faults of a cluster, for tests of applications that use any client.

    with cluster.faults.error("JoinGroup", "NOT_COORDINATOR", group="orders") as fault:
        ...
    assert fault.fired == 1

A fault begins with its call and ends with its ``with`` block, which raises ``NeverFired`` if the fault never fired.
Without a block, the fault ends with ``end``, or with the pytest test, which then fails in the same way.

Each broker counts separately: ``times=1`` lets each broker fire once. Pass ``broker`` if only one broker should fire.
Faults never hit requests from brokers.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypedDict, Unpack

from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.embedded.fault_client import BrokerGone, CarriedOutElsewhere, Document, FaultClient, FaultRefused

if TYPE_CHECKING:
    from kafka_zk.embedded.interception import InterceptingFunction, InterceptionServer

STOP_TIMEOUT_S = 10


class FaultyCluster(Protocol):
    """The interface of a cluster that faults need."""

    brokers: list[BrokerProcess]

    def restart_broker(self, broker_id: int, /) -> None: ...

    def wait_ready(self) -> None: ...


_open: "list[FaultHandle]" = []


class NeverFired(AssertionError):
    """The fault ended without having fired, so the test did not test it."""


class _Begun(NamedTuple):
    """A broker's process, and the number of the fault in it. Each process counts its own faults from the start."""

    pid: int
    number: int


class FaultHandle:
    """One fault, at one broker or several."""

    def __init__(self, cluster: FaultyCluster, kind: str, arguments: dict[str, Any]) -> None:
        self._cluster = cluster
        self._kind = kind
        self._arguments = {key: value for key, value in arguments.items() if value is not None}
        self._begun: dict[int, _Begun] = {}  # by broker id, until the end
        self._fired: dict[int, int] = {}
        self._has_lost_counts = False

    @property
    def fired(self) -> int:
        """How often the fault has fired, at all brokers together. A broker that has exited keeps its last known count.
        """
        self._count()
        return sum(self._fired.values())

    def _count(self) -> None:
        for broker_id, begun in self._begun.items():
            self._ask(broker_id, begun, FaultClient.fault)

    def begin(self, brokers: Iterator[BrokerProcess], *, at_one: bool) -> Self:
        """Begin at all ``brokers`` or at none; with ``at_one`` at the first that can carry out the fault.

        Raises: FaultRefused, also if a broker is paused; EmbeddedError if no broker runs.
        """
        refusal: CarriedOutElsewhere | None = None
        request = {"fault": self._kind, **self._arguments}
        try:
            for broker in _not_paused(brokers, at_one=at_one):
                try:
                    told = client_of(broker).begin(request)
                except CarriedOutElsewhere as error:
                    refusal = error
                    continue
                self._begun[broker.broker_id] = _Begun(broker.pid, told["id"])
                self._fired[broker.broker_id] = told["fired"]
                if at_one:
                    break
        except BaseException:
            self.end()
            raise
        if not self._begun:
            raise refusal or EmbeddedError("no broker runs")
        _open.append(self)
        return self

    def end(self) -> None:
        """End the fault. Returns when brokers that it stopped or disconnected serve again. No effect if it has ended.
        """
        if self in _open:
            _open.remove(self)
        ended, self._begun = self._begun, {}
        with ExitStack() as each:  # if it cannot be ended at one broker, it is ended at the others
            for broker_id, begun in ended.items():
                each.callback(self._end_at, broker_id, begun)
        if ended and self._kind == "expire_session":
            self._cluster.wait_ready()

    def _end_at(self, broker_id: int, begun: _Begun) -> None:
        self._ask(broker_id, begun, FaultClient.end)
        broker = self._cluster.brokers[broker_id]
        was_restarted = broker.alive and broker.pid != begun.pid
        if self._kind == "disk_full" and self._fired[broker_id] and not was_restarted:
            broker.stop(STOP_TIMEOUT_S)  # a broker with a full disk ends by itself
            self._cluster.restart_broker(broker_id)

    def belongs_to(self, cluster: FaultyCluster) -> bool:
        return self._cluster is cluster

    def end_with_cluster(self, *, is_responding: bool) -> None:
        """All brokers are about to end, or have ended, so nothing has to be restored."""
        if is_responding:
            with suppress(FaultRefused):  # another process has ended it
                self._count()
        else:
            self._has_lost_counts = True
        self._begun = {}

    def check_fired(self) -> None:
        """Raises NeverFired if the fault never fired, unless a broker exited before its count was read. Call this after
        the end.
        """
        if not self.fired and not self._has_lost_counts:
            raise NeverFired(f"the fault {self} never fired")

    def _ask(self, broker_id: int, begun: _Begun, ask: Callable[[FaultClient, int], Document]) -> None:
        """Read the count, if the process that has the fault still runs and is not paused."""
        broker = self._cluster.brokers[broker_id]
        if broker.is_paused:
            self._has_lost_counts = True
            return
        try:
            if broker.alive and broker.pid == begun.pid:
                self._fired[broker_id] = ask(client_of(broker), begun.number)["fired"]
                return
        except BrokerGone:
            pass
        if self._kind == "disk_full":
            self._fired[broker_id] = 1
        else:
            self._has_lost_counts = True

    def __str__(self) -> str:
        return f"{self._kind}({', '.join(f'{key}={value!r}' for key, value in self._arguments.items())})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        if kind is None:
            self.check_fired()


class Interception(FaultHandle):
    """A fault whose requests and responses functions of this process intercept."""

    def __init__(self, cluster: FaultyCluster, server: "InterceptionServer", arguments: dict[str, Any]) -> None:
        super().__init__(cluster, "intercept", {"port": server.port, **arguments})
        self._server = server

    def begin(self, brokers: Iterator[BrokerProcess], *, at_one: bool) -> Self:
        """Like ``FaultHandle.begin``. Raises: EmbeddedError if a broker does not connect to this process."""
        try:
            super().begin(brokers, at_one=at_one)
            self._server.accept({broker_id: self._cluster.brokers[broker_id].faults_token for broker_id in self._begun})
        except BaseException:
            self.end()
            raise
        return self

    def end(self) -> None:
        super().end()
        self._server.close()

    def check_fired(self) -> None:
        """Raises the first error of the intercepting functions; otherwise like ``FaultHandle.check_fired``."""
        self._server.raise_error()
        super().check_fired()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The error of a function may be the cause of the block's error, so it is raised instead."""
        super().__exit__(kind, error, trace)
        if isinstance(error, Exception):
            self._server.raise_error(error)


def _not_paused(brokers: Iterator[BrokerProcess], *, at_one: bool) -> list[BrokerProcess]:
    """Raises: FaultRefused if a broker is paused, or with ``at_one`` if all are: they would not respond."""
    found = list(brokers)
    running = [broker for broker in found if not broker.is_paused]
    if len(running) < len(found) and not (at_one and running):
        paused = next(broker for broker in found if broker.is_paused)
        raise FaultRefused(f"no fault can begin at broker {paused.broker_id}, which is paused: resume it first")
    return running


def client_of(broker: BrokerProcess) -> FaultClient:
    """A client of the broker's API for faults. Raises: EmbeddedError if the broker takes no faults."""
    if broker.faults_port is None:
        raise EmbeddedError(f"broker {broker.broker_id} takes no faults")
    return FaultClient(broker.faults_port, broker.faults_token)


def end_with(cluster: FaultyCluster, *, is_responding: bool) -> None:
    """End a cluster's faults before its own end. ``is_responding``: the brokers can still say how often each fired."""
    for handle in _open:
        if handle.belongs_to(cluster):
            handle.end_with_cluster(is_responding=is_responding)


def end_all(*, check: bool) -> None:
    """End all faults that this process began. ``check``: raise NeverFired for the first fault that never fired."""
    handles = list(_open)
    with ExitStack() as each:
        for handle in handles:
            each.callback(handle.end)
    if check:
        for handle in handles:
            handle.check_fired()


class RequestFilters(TypedDict, total=False):
    """A fault hits only requests that match all filters.

    ``client_id``: the request's client id. ``topic``, ``group``: named in the request. ``broker``: id of the only
    broker that applies the fault.
    """

    client_id: str | None
    topic: str | None
    group: str | None
    broker: int | None


class ClusterFaults:
    """The faults of a running cluster. A fault that cannot be carried out raises FaultRefused with the reason.

    ``times``: maximum number of requests that the fault hits at each broker; None: no limit. ``filters``: see
    ``RequestFilters``.
    """

    def __init__(self, cluster: FaultyCluster) -> None:
        self._cluster = cluster

    def error(
        self, api: str, code: str | int, times: int | None = 1, **filters: Unpack[RequestFilters]
    ) -> FaultHandle:
        """Respond to requests with an error instead of handling them.

        ``api``, ``code``: Kafka's names or numbers, such as ``"JoinGroup"`` and ``"NOT_COORDINATOR"``.
        """
        return self._begin("error", api=api, code=code, times=times, **filters)

    def drop_answer(self, api: str, nth: int = 1, **filters: Unpack[RequestFilters]) -> FaultHandle:
        """Handle the ``nth`` request from now on, but close its connection instead of sending the response."""
        return self._begin("drop_answer", api=api, nth=nth, **filters)

    def throttle(
        self, ms: int, *, api: str | None = None, times: int | None = None, **filters: Unpack[RequestFilters]
    ) -> FaultHandle:
        """Throttle the client for ``ms`` milliseconds after each request, as a quota does. ``api``: None for Produce
        and Fetch."""
        return self._begin("throttle", ms=ms, api=api, times=times, **filters)

    def slow_fetch(
        self,
        ms: int,
        *,
        times: int | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        broker: int | None = None,
    ) -> FaultHandle:
        """Delay each Fetch by ``ms`` milliseconds, as a slow disk would."""
        return self._begin("slow_fetch", broker=broker, ms=ms, times=times, client_id=client_id, topic=topic)

    def intercept(
        self,
        on_request: "InterceptingFunction | None" = None,
        on_response: "InterceptingFunction | None" = None,
        *,
        api: str | None = None,
        times: int | None = None,
        **filters: Unpack[RequestFilters],
    ) -> FaultHandle:
        """Call a function of this process for each request, or for each response, which it may change.

        ``on_request`` is called before the broker handles the request, ``on_response`` afterwards. Each gets an
        ``Exchange`` and returns None, another message or ``DROP`` (see ``kafka_zk.embedded.interception``) within 10 s.
        An error of a function is raised at the end of the fault. ``api``: None for all APIs.
        """
        from kafka_zk.embedded.interception import InterceptionServer  # imported here, because it loads the codec

        if on_request is None and on_response is None:
            raise EmbeddedError("intercept needs a function for requests or for responses")
        messages = None if on_request and on_response else "requests" if on_request else "responses"
        brokers = self._brokers(filters.pop("broker", None))
        server = InterceptionServer(on_request, on_response)
        handle = Interception(self._cluster, server, {"messages": messages, "api": api, "times": times, **filters})
        return handle.begin(brokers, at_one=False)

    def coordinator_moves(self, group: str | None = None) -> FaultHandle:
        """Move the coordinator of a group, or of all groups, to another broker. Returns when it has moved. It stays
        there after the end of the fault. A group without members and offsets is refused."""
        return self._begin_at_one("coordinator_moves", group=group)

    def leader_moves(self, topic: str, partition: int = 0) -> FaultHandle:
        """Move the leader of a partition to another broker. Returns when it has moved."""
        return self._begin_at_one("leader_moves", topic=topic, partition=partition)

    def rebalance_amid_commit(self, group: str, *, times: int = 1, client_id: str | None = None) -> FaultHandle:
        """Remove the committing member from its group before the commit is handled, so that the commit fails."""
        return self._begin("rebalance_amid_commit", group=group, times=times, client_id=client_id)

    def fence(self, transactional_id: str) -> FaultHandle:
        """Fence the producer with this transactional id, as another producer with the same id would."""
        return self._begin_at_one("fence", transactional_id=transactional_id)

    def out_of_order_sequence(
        self, *, topic: str | None = None, times: int = 1, client_id: str | None = None
    ) -> FaultHandle:
        """Let a leader forget the last batch of an idempotent producer, so that the next batch is out of order."""
        return self._begin("out_of_order_sequence", topic=topic, times=times, client_id=client_id)

    def expire_session(self, broker: int = 0) -> FaultHandle:
        """End a broker's ZooKeeper session. The end of the fault waits until the broker is registered again."""
        return self._begin("expire_session", broker=broker)

    def disk_full(self, broker: int = 0) -> FaultHandle:
        """Let no file of a broker grow. At its next write, the broker takes its log directory offline. If it has no
        other directory, it exits, and the end of the fault starts it again."""
        return self._begin("disk_full", broker=broker)

    def clock_step(self, step_ms: int, broker: int | None = None) -> FaultHandle:
        """Move the wall clock of brokers by ``step_ms`` milliseconds, which may be negative, until the fault ends.
        ``fired`` counts how often the clock was read."""
        return self._begin("clock_step", broker=broker, step_ms=step_ms)

    def _begin(self, kind: str, *, broker: int | None = None, **arguments: Any) -> FaultHandle:
        return FaultHandle(self._cluster, kind, arguments).begin(self._brokers(broker), at_one=False)

    def _begin_at_one(self, kind: str, **arguments: Any) -> FaultHandle:
        return FaultHandle(self._cluster, kind, arguments).begin(self._brokers(None), at_one=True)

    def _brokers(self, broker_id: int | None) -> Iterator[BrokerProcess]:
        brokers = self._cluster.brokers
        if broker_id is None:
            return (broker for broker in brokers if broker.alive)
        if not 0 <= broker_id < len(brokers):
            raise EmbeddedError(f"there is no broker {broker_id}")
        return iter([brokers[broker_id]])
