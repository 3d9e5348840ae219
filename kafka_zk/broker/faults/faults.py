"""Begins and ends the faults of one broker. Each kind acts at one place (seam) of the broker:

=================================================== =====================================
error, drop_answer, throttle, slow_fetch, intercept a handler around the API's handler
rebalance_amid_commit, out_of_order_sequence        the same, and the group or the log
coordinator_moves, leader_moves                     the controller
fence                                               the transaction coordinator
expire_session                                      ZooKeeper
disk_full                                           RLIMIT_FSIZE of the process
clock_step                                          the wall clock
=================================================== =====================================
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kafka_zk.base.operating_system.limits import file_size_limit, limit_file_size
from kafka_zk.base.threads import RunInThread
from kafka_zk.base.turns import after
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.faults.errors import InvalidFault, WrongBroker
from kafka_zk.broker.faults.fault import Fault, read_fault
from kafka_zk.broker.faults.interception import intercepting
from kafka_zk.broker.faults.interceptor import ConnectInterceptor, Interceptor
from kafka_zk.broker.faults.known_groups import COORDINATOR_ERRORS, ConnectToBroker, may_exist
from kafka_zk.broker.faults.moves import check_is_controller, coordinators_partitions, move_leaders
from kafka_zk.broker.faults.request_faults import REQUEST_FAULTS, RequestSeam, around
from kafka_zk.broker.faults.stepped_clock import SteppedClock
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.handlers.table import OFFERED_VERSIONS, Dispatcher, RawHandler
from kafka_zk.broker.transaction.metadata import TransactionMetadata
from kafka_zk.broker.transaction.state_topic import TRANSACTION_STATE_TOPIC
from kafka_zk.embedded.session_expiry import SessionUnknown, expire_session
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.client import connect_string
from kafka_zk.registry.client.client import RegistryClient

_FENCE_ATTEMPTS = 100
_FENCE_INTERVAL_S = 0.02

MOST_FAULTS = 100


class Seams(NamedTuple):
    """The parts of a broker on which faults act. ``zookeeper``: the client whose session ``expire_session`` ends."""

    services: Services
    dispatcher: Dispatcher
    zookeeper: RegistryClient
    clock: SteppedClock
    run_in_thread: RunInThread
    connect_interceptor: ConnectInterceptor
    connect_to_broker: ConnectToBroker


class Faults:
    """The faults of one broker. Numbers are not reused. At most MOST_FAULTS faults can be open at a time.

    ``open``: the faults that have not ended, by number.
    """

    def __init__(self, seams: Seams) -> None:
        self._seams = seams
        self._count = 0
        self._usual_limit_bytes: int | None = None  # the limit of file sizes that applies again after ``disk_full``
        self._counters: dict[int, Callable[[], int]] = {}  # by fault number, for faults that do not act on requests
        self._interceptors: dict[int, Interceptor] = {}  # by fault number
        self.open: dict[int, Fault] = {}
        self._at_once: Mapping[str, Callable[[Fault], Awaitable[None]]] = {
            "coordinator_moves": self._coordinator_moves,
            "leader_moves": self._leader_moves,
            "fence": self._fence,
            "expire_session": self._expire_session,
        }
        self._counted: Mapping[str, Callable[[], int]] = {
            "disk_full": lambda: -len(seams.services.replicas.logs.live_directories),
            "clock_step": lambda: seams.clock.read_count,
        }

    async def begin(self, document: Any) -> Fault:
        """Begin a fault. Returns when it is active; a fault that happens once, such as ``fence``, has then fired.

        Raises: InvalidFault, WrongBroker.
        """
        if len(self.open) >= MOST_FAULTS:
            raise InvalidFault(f"{MOST_FAULTS} faults are open, the maximum: end one first")
        fault = read_fault(self._count + 1, document)
        if unknown := [key for key in fault.apis if key not in OFFERED_VERSIONS]:
            raise InvalidFault(f"this broker has no API {ApiKey(unknown[0]).name}")
        self._count += 1
        self.open[fault.number] = fault
        try:
            if fault.kind in self._at_once:
                await self._at_once[fault.kind](fault)
                fault.fired = 1
            elif fault.kind == "intercept":
                await self._intercept(fault)
            elif fault.kind in self._counted:
                self._counters[fault.number] = _since_now(self._counted[fault.kind])
            self._apply()
        except BaseException:
            if fault.number in self.open:  # unless it has already been ended
                self.end(fault.number)
            raise
        return fault

    def end(self, number: int) -> Fault:
        """End a fault and undo its lasting effects. Raises: KeyError if there is no such open fault."""
        fault = self._count_of(self.open[number])
        del self.open[number]
        self._counters.pop(number, None)
        interceptor = self._interceptors.pop(number, None)
        if interceptor is not None:
            interceptor.close()
        self._apply(*fault.apis)
        return fault

    def as_document(self, fault: Fault) -> dict[str, Any]:
        """The fault as JSON, with its current count."""
        return self._count_of(fault).as_document()

    def _count_of(self, fault: Fault) -> Fault:
        if fault.number in self._counters:
            fault.fired = self._counters[fault.number]()
        return fault

    def _apply(self, *ended: int) -> None:
        """Set handlers, quotas, the clock and the file size limit according to the open faults. ``ended``: the APIs of
        a fault that has ended."""
        faults = list(self.open.values())
        on_requests = [(fault, seam) for fault in faults if (seam := self._seam(fault)) is not None]
        for api_key in {*ended, *(key for fault, _ in on_requests for key in fault.apis)}:
            wraps = [around(fault, seam) for fault, seam in on_requests if api_key in fault.apis]
            self._seams.dispatcher.wrap(api_key, partial(_nested, wraps) if wraps else None)
        kinds = {fault.kind for fault in faults}
        self._seams.services.client_quotas.throttle_others(on="throttle" in kinds)
        self._seams.clock.step_ms = sum(fault.arguments["step_ms"] for fault in faults if fault.kind == "clock_step")
        if "disk_full" in kinds and self._usual_limit_bytes is None:
            self._usual_limit_bytes = file_size_limit()
            limit_file_size(0)
        elif "disk_full" not in kinds and self._usual_limit_bytes is not None:
            limit_file_size(self._usual_limit_bytes)
            self._usual_limit_bytes = None

    def _seam(self, fault: Fault) -> RequestSeam | None:
        """How the fault acts on requests; None if it does not."""
        interceptor = self._interceptors.get(fault.number)
        if interceptor is None:
            return REQUEST_FAULTS.get(fault.kind)
        return None if interceptor.is_closed else intercepting(interceptor, fault.arguments.get("messages"))

    async def _intercept(self, fault: Fault) -> None:
        interceptor = await self._seams.connect_interceptor(fault.arguments["port"])
        if fault.number not in self.open:
            interceptor.close()
            raise InvalidFault("the fault was ended before it began")
        self._interceptors[fault.number] = interceptor
        interceptor.on_lost = partial(self._apply, *fault.apis)

    async def _coordinator_moves(self, fault: Fault) -> None:
        services, group = self._seams.services, fault.arguments.get("group")
        tps = coordinators_partitions(services, group)
        check_is_controller(services)
        if group is not None and not await may_exist(services, self._seams.connect_to_broker, group):
            raise InvalidFault(f"group {group!r} does not exist: let a consumer join it first, or correct its name")
        await move_leaders(services, tps)

    async def _leader_moves(self, fault: Fault) -> None:
        tp = TopicPartition(fault.arguments["topic"], fault.arguments["partition"])
        await move_leaders(self._seams.services, [tp])

    async def _fence(self, fault: Fault) -> None:
        """Initialise the transactional id, as another producer with the same id would."""
        transactions, wanted = self._seams.services.transactions, fault.arguments["transactional_id"]
        if TRANSACTION_STATE_TOPIC not in self._seams.services.metadata.topics:
            raise InvalidFault("no transactional id has been used yet")
        known = transactions.describe(wanted)
        if not isinstance(known, TransactionMetadata):
            reason = f"transactional id {wanted!r}: {known.name}"
            raise WrongBroker(reason) if known in COORDINATOR_ERRORS else InvalidFault(reason)
        for _ in range(_FENCE_ATTEMPTS):
            code = (await transactions.init_producer_id(wanted, known.timeout_ms, None)).error
            if code is not ErrorCode.CONCURRENT_TRANSACTIONS:  # returned during the abort of the open transaction
                break
            await after(self._seams.services.clock, _FENCE_INTERVAL_S)
        if code is not ErrorCode.NONE:
            raise InvalidFault(f"transactional id {wanted!r} cannot be fenced: {code.name}")

    async def _expire_session(self, fault: Fault) -> None:
        config, session_id = self._seams.services.config, self._seams.zookeeper.session_id
        if session_id is None:
            raise InvalidFault("this broker has no ZooKeeper session")
        if config.zookeeper_security.tls is not None:
            raise InvalidFault("a session of a ZooKeeper with TLS cannot be ended from outside")
        expired: list[bool] = []
        errors: list[str] = []

        def expire() -> None:
            for host, port in connect_string.parse(config.zookeeper_connect).servers:
                try:
                    expire_session(host, port, session_id)
                    expired.append(True)
                    return
                except (OSError, SessionUnknown) as error:
                    errors.append(str(error))

        await self._seams.run_in_thread(expire)
        if not expired:
            raise InvalidFault(f"the ZooKeeper session cannot be expired: {'; '.join(errors)}")


def _since_now(count: Callable[[], int]) -> Callable[[], int]:
    begin = count()
    return lambda: count() - begin


def _nested(wraps: list[Callable[[RawHandler], RawHandler]], handler: RawHandler) -> RawHandler:
    for wrap in wraps:
        handler = wrap(handler)
    return handler
