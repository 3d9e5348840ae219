"""Faults of a run: a plan drawn from the seed, and how each is done and undone. A plan can be written down and played.

A line of a plan is ``12000 kill broker-1 3000``: when (ms of virtual time), what, to whom, for how long.
"""

import errno
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from kafka_zk.base.clock import Clock
from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.transaction.events import TransactionChanged
from kafka_zk.broker.transaction.states import TransactionState
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.registry.znodes.controller import CONTROLLER
from kafka_zk.registry.znodes.controller import decode as decode_controller
from kafka_zk.registry.znodes.topics import decode_state, state_path
from kafka_zk.sim.machine.process import THREAD_S
from kafka_zk.sim.world.clients import GROUP
from kafka_zk.sim.world.history import Fact, Happened

if TYPE_CHECKING:
    from kafka_zk.sim.campaign.run import Run
    from kafka_zk.sim.world.world import SimBroker


class Fault(NamedTuple):
    """``duration_ms``: until it is undone (a killed process started again); 0 for what is over at once."""

    at_ms: int
    kind: str
    target: str
    duration_ms: int

    def __str__(self) -> str:
        return f"{self.at_ms} {self.kind} {self.target} {self.duration_ms}"

    @staticmethod
    def parse(line: str) -> "Fault":
        """Raises: ValueError for what is no line of a plan."""
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise ValueError(f'"{line}" is no fault; one is "12000 kill broker-1 3000": when (ms), what, who, how long')
        at_ms, kind, target, duration_ms = found.groups()
        if kind not in KINDS:
            raise ValueError(f"{kind} is no fault; there are: {', '.join(KINDS)}")
        return Fault(int(at_ms), kind, target, int(duration_ms))


class FaultsInForce:
    """What undoes the faults that last; each is undone once, at its time or by the peace."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def begin(self, clock: Clock, fault: Fault, undo: Callable[[], None]) -> None:
        """``undo`` is called when the fault's time is over, if it has one."""
        self._undo.append(undo)
        if fault.duration_ms:
            clock.callLater(fault.duration_ms / 1000, self._end, undo)

    def _end(self, undo: Callable[[], None]) -> None:
        if undo in self._undo:
            self._undo.remove(undo)
            undo()

    def end_all(self) -> None:
        ending, self._undo = self._undo, []
        for undo in ending:
            undo()


_LINE = re.compile(r"(\d{1,9}) (\S+) (\S+) (\d{1,9})")

LAG_S = 12
"""How long a follower lags."""
BUSY_DISK_S = (8.0, 12.0)
"""How long a busy disk takes to sync a file."""
COMPOSED_MS = 20_000
"""How long a sequence of faults lasts."""
RECOVERY_MS = 20_000
"""After a fault: sessions end, leaders are elected, replicas catch up."""
SEQUENCE_PROBABILITY = 0.3
PEACE = "peace"

Act = Callable[["Run", str], Callable[[], None]]
"""Do it to the target; returns what undoes it."""


def _nothing() -> None:
    pass


def _kill(run: "Run", name: str) -> Callable[[], None]:
    run.broker(name).kill()
    return run.broker_starter(name)


def _power(run: "Run", name: str) -> Callable[[], None]:
    run.broker(name).lose_power()
    return run.broker_starter(name)


def _pause(run: "Run", name: str) -> Callable[[], None]:
    broker = run.broker(name)
    if not broker.is_alive:
        return _nothing
    broker.pause()
    return broker.resume


def _stop_now(run: "Run", broker: "SimBroker") -> None:
    broker.stop().addErrback(run.world.failed)


def _stop(run: "Run", name: str) -> Callable[[], None]:
    broker = run.broker(name)
    process = broker.process
    if broker.is_started and process is not None:
        process.receive(partial(_stop_now, run, broker))  # one that is paused hears of it later
    return run.broker_starter(name)


def _expire(run: "Run", name: str) -> Callable[[], None]:
    """Not of a client that packets do not reach: it has its session for the whole timeout, as a lease must assume."""
    client = run.client_of(name)
    if client is not None and not client.is_cut_silently:
        run.world.zookeeper.expire(client)
    return _nothing


def _disconnect(run: "Run", name: str) -> Callable[[], None]:
    client = run.client_of(name)
    if client is not None:
        client.disconnect()
    return _nothing


def _lose_request(run: "Run", name: str) -> Callable[[], None]:
    client = run.client_of(name)
    if client is not None:
        client.lose_request(run.random.randint(0, 3), applied=run.random.random() < 0.5)
    return _nothing


def _cut_zookeeper(run: "Run", name: str) -> Callable[[], None]:
    client = run.client_of(name)
    if client is None:
        return _nothing
    client.cut(silent=run.random.random() < 0.5)
    return client.heal


def _stop_zookeeper(run: "Run", name: str) -> Callable[[], None]:
    zookeeper = run.world.zookeeper
    if not zookeeper.running:
        return _nothing
    zookeeper.stop()
    return zookeeper.start


def _break_connections(run: "Run", name: str) -> Callable[[], None]:
    for transport in list(run.world.network.transports):
        if transport.connected and name in (transport.here[0], transport.there[0]) and run.random.random() < 0.5:
            run.world.network.break_off(transport)
    return _nothing


def _cut(run: "Run", name: str) -> Callable[[], None]:
    """In one direction, or in both, to one other host or to all."""
    network = run.world.network
    others = [other for other in run.hosts() if other != name]
    for other in others if run.random.random() < 0.3 else [run.random.choice(others)]:
        network.cut(name, other)
        if run.random.random() < 0.5:
            network.cut(other, name)
    return network.heal


def _slow(run: "Run", name: str) -> Callable[[], None]:
    run.world.network.slow_down(name, run.random.uniform(0.01, 0.5))
    return run.world.network.heal


def _full(run: "Run", name: str) -> Callable[[], None]:
    return run.disk_fault(f"/{name}/", ("write",), errno.ENOSPC)


def _failing(run: "Run", name: str) -> Callable[[], None]:
    return run.disk_fault(f"/{name}/", ("write", "sync", "sync_data", "open", "rename"), errno.EIO)


def _clock(run: "Run", name: str) -> Callable[[], None]:
    """The wall clock is set, and the machine's runs at another rate from now on."""
    process = run.broker(name).process
    if process is not None:
        process.set_clock(run.random.uniform(0.95, 1.05), run.random.choice((-3_600_000, -5_000, 5_000, 3_600_000)))
    return _nothing


def _kill_member(run: "Run", name: str) -> Callable[[], None]:
    run.kill_member(name)
    return lambda: run.replace_member(name)


def _pause_member(run: "Run", name: str) -> Callable[[], None]:
    member = run.members.get(name)
    if member is None or member.is_over:
        return _nothing
    member.pause()
    return member.resume


def _leave(run: "Run", name: str) -> Callable[[], None]:
    run.leave(name)
    return lambda: run.replace_member(name)


def _delete_claim(run: "Run", name: str) -> Callable[[], None]:
    """Somebody with a ZooKeeper shell deletes what a member of the ZooKeeper group owns."""
    for tp in run.owned(name):
        run.delete_znode(znodes.owner_path(GROUP, *tp))
    return _nothing


def _late_orders(run: "Run", name: str) -> Callable[[], None]:
    """The controller tells the broker of an election, and that arrives when it has heard of later ones from another."""
    world = run.world
    others = [broker.name for broker in world.brokers.values() if broker.name != name]
    controller = _controller(run)
    if controller is None or controller == name:
        return _nothing
    world.network.cut(controller, name)
    others.remove(controller)
    run.later(0.3, partial(_expire, run, run.random.choice(others)))  # partitions that it leads get other leaders
    run.later(1.3, partial(_expire, run, controller))  # of which it is one
    run.later(3, world.network.heal)
    return world.network.heal


def _controller(run: "Run") -> str | None:
    tree = run.world.zookeeper.tree
    data = tree.get(CONTROLLER)[0] if tree.exists(CONTROLLER) else None
    return f"broker-{decode_controller(data).broker_id}" if data else None


def _leader(run: "Run", tp: TopicPartition) -> str | None:
    tree = run.world.zookeeper.tree
    path = state_path(*tp)
    if tree.exists(path) is None:
        return None
    return f"broker-{decode_state(*tp, tree.get(path)[0]).leader}"


def _pair(run: "Run", name: str) -> tuple[str, str] | None:
    """Two brokers of which none is the controller, the second one ``name`` if possible; None if there are no two."""
    controller = _controller(run)
    names = [broker.name for broker in run.world.brokers.values() if broker.is_started and broker.name != controller]
    if controller is None or len(names) < 2:
        return None
    target = name if name in names else names[0]
    names.remove(target)
    return run.random.choice(names), target


def _lag(run: "Run", name: str) -> Callable[[], None]:
    """A follower gets nothing from a leader for longer than it may lag; both reach the controller, and it them."""
    pair = _pair(run, name)
    if pair is None:
        return _nothing
    network = run.world.network
    network.heal()  # of two followers that lag one may be too much for min.insync.replicas
    network.cut(*pair)
    run.later(LAG_S, network.heal)
    return network.heal


def _depose(run: "Run", name: str) -> Callable[[], None]:
    """Somebody deletes ``/controller`` while the controller stands still, and an AlterPartition waits for it. When it
    wakes its session is the same, and there is another controller."""
    pair = _pair(run, name)
    controller = _controller(run)
    if pair is None or controller is None or not run.broker(controller).is_started:
        return _nothing
    broker, process = run.broker(controller), run.broker(controller).process
    assert process is not None

    def pause() -> None:
        if broker.process is process and broker.is_started:
            broker.pause()

    def resume() -> None:
        if broker.process is process and process.is_paused:
            broker.resume()

    network = run.world.network
    network.cut(*pair)
    run.later(3.5, pause)
    run.later(6.7, partial(run.delete_znode, CONTROLLER))
    run.later(7.8, resume)
    run.later(9, network.heal)
    return resume


def _outlived(run: "Run", name: str) -> Callable[[], None]:
    """All other brokers die; when nobody but this one is in sync, it dies, and they come back before it does."""
    names = [broker.name for broker in run.world.brokers.values()]
    others = [other for other in names if other != name]
    for other in others:
        run.broker(other).kill()
    run.later(7.5, run.broker(name).kill)
    for other in others:
        run.later(7.6, run.broker_starter(other))
    run.later(17, run.broker_starter(name))
    return _nothing


def _unnoticed(run: "Run", name: str) -> Callable[[], None]:
    """The machine of the controller loses its power, and the broker is back before its session is over: no controller
    sees it go."""
    controller = _controller(run)
    if controller is None or not run.broker(controller).is_alive:
        return _nothing
    run.broker(controller).lose_power()
    run.later(run.random.uniform(0.2, 4), run.broker_starter(controller))
    return _nothing


def _unsynced(run: "Run", name: str) -> Callable[[], None]:
    """The disk of a broker is too busy to sync the segments that are closed; then its machine loses its power."""
    broker = run.broker(name)
    if not broker.is_started or broker.process is None:
        return _nothing
    broker.process.thread_s = BUSY_DISK_S
    run.later(BUSY_DISK_S[0], broker.lose_power)
    run.later(BUSY_DISK_S[0] + 1, run.broker_starter(name))
    return partial(setattr, broker.process, "thread_s", THREAD_S)


def _unfinished_commits(run: "Run", name: str) -> Callable[[], None]:
    """The next commit is prepared, and its markers do not reach a leader until the coordinator is another one."""

    def heard(event: Event) -> None:
        if not isinstance(event, TransactionChanged) or event.state is not TransactionState.PREPARE_COMMIT:
            return
        coordinator = f"broker-{event.actor.rpartition('-')[2]}"
        leaders = [_leader(run, tp) for tp in event.partitions]
        others = [leader for leader in leaders if leader not in (None, coordinator, _controller(run))]
        if others:
            run.listeners.remove(heard)
            run.world.network.cut(coordinator, others[0])
            run.later(0.7, partial(_expire, run, coordinator))
            run.later(3, run.world.network.heal)

    run.listeners.append(heard)
    return lambda: run.listeners.remove(heard) if heard in run.listeners else None


KINDS: dict[str, Act] = {
    "kill": _kill,
    "power": _power,
    "pause": _pause,
    "stop": _stop,
    "expire": _expire,
    "disconnect": _disconnect,
    "lose-request": _lose_request,
    "cut-zookeeper": _cut_zookeeper,
    "stop-zookeeper": _stop_zookeeper,
    "break": _break_connections,
    "cut": _cut,
    "slow": _slow,
    "full": _full,
    "failing": _failing,
    "clock": _clock,
    "kill-member": _kill_member,
    "pause-member": _pause_member,
    "leave": _leave,
    "delete-claim": _delete_claim,
    "late-orders": _late_orders,
    "lag": _lag,
    "depose": _depose,
    "outlived": _outlived,
    "unnoticed": _unnoticed,
    "unsynced": _unsynced,
    "unfinished-commits": _unfinished_commits,
}
COMPOSED = ("late-orders", "lag", "depose", "outlived", "unnoticed", "unsynced", "unfinished-commits")
"""Sequences in which one safeguard of replication or of transactions matters; they last as long as they take."""
DRAWN = tuple(kind for kind in KINDS if kind not in ("delete-claim", *COMPOSED))
"""What a seed draws from, unless kinds are named: another kind would make other plans of all seeds."""
_OF_MEMBERS = ("kill-member", "pause-member", "leave", "delete-claim")
_OF_ZOOKEEPER = ("expire", "disconnect", "lose-request", "cut-zookeeper")
_OF_THE_NETWORK = ("break", "cut", "slow")
_AT_ONCE = ("delete-claim", "expire", "disconnect", "lose-request", "break", "clock", *COMPOSED)


def disturbed(facts: Sequence[Fact]) -> list[tuple[float, float]]:
    """From when to when faults may keep a cluster from acknowledging records; a follower that lags does not."""
    found = []
    for fact in facts:
        if not isinstance(fact, Happened):
            continue
        if _LINE.fullmatch(fact.text) is not None:
            fault = Fault.parse(fact.text)
            if fault.kind != "lag":
                lasts_ms = COMPOSED_MS if fault.kind in COMPOSED else fault.duration_ms
                found.append((fact.time_ms, fact.time_ms + lasts_ms + RECOVERY_MS))
        elif fact.text == PEACE:
            found.append((fact.time_ms, inf))
        elif fact.text.startswith("start "):
            found.append((fact.time_ms, fact.time_ms + RECOVERY_MS))
    return found


def reassigned(facts: Sequence[Fact]) -> list[float]:
    """When partitions were to be reassigned while a follower lags. With a new leader epoch its time begins again
    (Replica.resetReplicaState in Kafka 3.9), for what was sent to that partition, and to others in the same request."""
    found, lags_until_ms = [], -inf
    for fact in facts:
        if isinstance(fact, Happened):
            line = _LINE.fullmatch(fact.text)
            if line is not None and line[2] == "lag":
                lags_until_ms = fact.time_ms + LAG_S * 1_000
            elif fact.text.startswith("reassign ") and fact.time_ms < lags_until_ms:
                found.append(fact.time_ms)
    return found


def drawn(
    random: Random,
    brokers: Sequence[str],
    members: Sequence[str],
    broker_members: Sequence[str],
    end_ms: int,
    kinds: Sequence[str],
) -> list[Fault]:
    """Three to ten faults before ``end_ms``, in order of time. ``broker_members``: of the group of the broker."""
    everybody = [*brokers, *members, *broker_members]
    targets_of: dict[str, Sequence[str]] = dict.fromkeys(KINDS, brokers)
    targets_of |= dict.fromkeys(_OF_MEMBERS, everybody[len(brokers) :])
    targets_of |= dict.fromkeys(_OF_ZOOKEEPER, everybody[: len(brokers) + len(members)])
    targets_of |= dict.fromkeys(_OF_THE_NETWORK, everybody)
    targets_of["stop-zookeeper"] = ["zookeeper"]
    plan = []
    for _ in range(random.randint(3, 10)):
        kind = random.choice(kinds)
        target = random.choice(targets_of[kind])
        duration_ms = 0 if kind in _AT_ONCE else random.choice((200, 1_000, 3_000, 7_000, 12_000))
        plan.append(Fault(random.randint(1_000, end_ms), kind, target, duration_ms))
    return sorted(plan)


def with_a_sequence(
    random: Random, plan: Sequence[Fault], brokers: Sequence[str], end_ms: int, kinds: Sequence[str]
) -> list[Fault]:
    """Now and then one of these sequences more, so that it ends before ``end_ms``."""
    if random.random() >= SEQUENCE_PROBABILITY:
        return list(plan)
    at_ms = random.randint(1_000, end_ms - COMPOSED_MS)
    return sorted([*plan, Fault(at_ms, random.choice(kinds), random.choice(brokers), 0)])


def disk_error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
