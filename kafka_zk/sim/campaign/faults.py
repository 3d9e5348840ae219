"""Applies faults to their targets, and undoes them."""

import errno
from collections.abc import Callable
from functools import partial

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.transaction.events import TransactionChanged
from kafka_zk.broker.transaction.states import TransactionState
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.registry.znodes.controller import CONTROLLER
from kafka_zk.registry.znodes.controller import decode as decode_controller
from kafka_zk.registry.znodes.topics import decode_state, state_path
from kafka_zk.sim.campaign.targets import Targets
from kafka_zk.sim.machine import object_store
from kafka_zk.sim.machine.object_store import ALL
from kafka_zk.sim.machine.process import THREAD_S
from kafka_zk.sim.world.clients import GROUP
from kafka_zk.sim.world.world import SimBroker

LAG_S = 12
"""For how long a follower is cut off from its leader."""
BUSY_DISK_S = (8.0, 12.0)
"""How long a busy disk takes to sync a file (minimum, maximum)."""

Act = Callable[[Targets, str], Callable[[], None]]
"""Applies a fault and returns the callable that undoes it."""


def _nothing() -> None:
    pass


def _kill(run: Targets, name: str) -> Callable[[], None]:
    run.broker(name).kill()
    return run.broker_starter(name)


def _power(run: Targets, name: str) -> Callable[[], None]:
    run.broker(name).lose_power()
    return run.broker_starter(name)


def _pause(run: Targets, name: str) -> Callable[[], None]:
    broker = run.broker(name)
    if not broker.is_alive:
        return _nothing
    broker.pause()
    return broker.resume


def _stop_now(run: Targets, broker: SimBroker) -> None:
    broker.stop().addErrback(run.world.failed)


def _stop(run: Targets, name: str) -> Callable[[], None]:
    broker = run.broker(name)
    process = broker.process
    if broker.is_started and process is not None:
        process.receive(partial(_stop_now, run, broker))  # a paused broker stops when it resumes
    return run.broker_starter(name)


def _expire(run: Targets, name: str) -> Callable[[], None]:
    """Expire the target's session, unless its packets vanish. If they do, the session must last for the whole timeout,
    because the client's lease relies on that.
    """
    client = run.client_of(name)
    if client is not None and not client.is_cut_silently:
        run.world.zookeeper.expire(client)
    return _nothing


def _disconnect(run: Targets, name: str) -> Callable[[], None]:
    client = run.client_of(name)
    if client is not None:
        client.disconnect()
    return _nothing


def _lose_request(run: Targets, name: str) -> Callable[[], None]:
    client = run.client_of(name)
    if client is not None:
        client.lose_request(run.random.randint(0, 3), applied=run.random.random() < 0.5)
    return _nothing


def _cut_zookeeper(run: Targets, name: str) -> Callable[[], None]:
    client = run.client_of(name)
    if client is None:
        return _nothing
    client.cut(silent=run.random.random() < 0.5)
    return client.heal


def _stop_zookeeper(run: Targets, name: str) -> Callable[[], None]:
    zookeeper = run.world.zookeeper
    if not zookeeper.running:
        return _nothing
    zookeeper.stop()
    return zookeeper.start


def _break_connections(run: Targets, name: str) -> Callable[[], None]:
    for transport in list(run.world.network.transports):
        if transport.connected and name in (transport.here[0], transport.there[0]) and run.random.random() < 0.5:
            run.world.network.break_off(transport)
    return _nothing


def _cut(run: Targets, name: str) -> Callable[[], None]:
    network = run.world.network
    others = [other for other in run.hosts() if other != name]
    for other in others if run.random.random() < 0.3 else [run.random.choice(others)]:
        network.cut(name, other)
        if run.random.random() < 0.5:
            network.cut(other, name)
    return network.heal


def _slow(run: Targets, name: str) -> Callable[[], None]:
    run.world.network.slow_down(name, run.random.uniform(0.01, 0.5))
    return run.world.network.heal


def _full(run: Targets, name: str) -> Callable[[], None]:
    return run.disk_fault(f"/{name}/", ("write",), errno.ENOSPC)


def _failing(run: Targets, name: str) -> Callable[[], None]:
    return run.disk_fault(f"/{name}/", ("write", "sync", "sync_data", "open", "rename"), errno.EIO)


def _clock(run: Targets, name: str) -> Callable[[], None]:
    """The wall clock jumps, and the clock's rate changes."""
    process = run.broker(name).process
    if process is not None:
        process.set_clock(run.random.uniform(0.95, 1.05), run.random.choice((-3_600_000, -5_000, 5_000, 3_600_000)))
    return _nothing


def _kill_member(run: Targets, name: str) -> Callable[[], None]:
    run.kill_member(name)
    return lambda: run.replace_member(name)


def _pause_member(run: Targets, name: str) -> Callable[[], None]:
    member = run.members.get(name)
    if member is None or member.is_over:
        return _nothing
    member.pause()
    return member.resume


def _leave(run: Targets, name: str) -> Callable[[], None]:
    run.leave(name)
    return lambda: run.replace_member(name)


def _delete_claim(run: Targets, name: str) -> Callable[[], None]:
    for tp in run.owned(name):
        run.delete_znode(znodes.owner_path(GROUP, *tp))
    return _nothing


def _late_orders(run: Targets, name: str) -> Callable[[], None]:
    """A controller's order arrives after later orders of another controller."""
    world = run.world
    others = [broker.name for broker in world.brokers.values() if broker.name != name]
    controller = _controller(run)
    if controller is None or controller == name:
        return _nothing
    world.network.cut(controller, name)
    others.remove(controller)
    run.later(0.3, partial(_expire, run, run.random.choice(others)))  # this controller's orders are delayed
    run.later(1.3, partial(_expire, run, controller))  # the next controller's orders are not delayed
    run.later(3, world.network.heal)
    return world.network.heal


def _controller(run: Targets) -> str | None:
    tree = run.world.zookeeper.tree
    data = tree.get(CONTROLLER)[0] if tree.exists(CONTROLLER) else None
    return f"broker-{decode_controller(data).broker_id}" if data else None


def _leader(run: Targets, tp: TopicPartition) -> str | None:
    tree = run.world.zookeeper.tree
    path = state_path(*tp)
    if tree.exists(path) is None:
        return None
    return f"broker-{decode_state(*tp, tree.get(path)[0]).leader}"


def _pair(run: Targets, name: str) -> tuple[str, str] | None:
    controller = _controller(run)
    names = [broker.name for broker in run.world.brokers.values() if broker.is_started and broker.name != controller]
    if controller is None or len(names) < 2:
        return None
    target = name if name in names else names[0]
    names.remove(target)
    return run.random.choice(names), target


def _lag(run: Targets, name: str) -> Callable[[], None]:
    pair = _pair(run, name)
    if pair is None:
        return _nothing
    network = run.world.network
    network.heal()  # one follower at a time: two could make min.insync.replicas unreachable
    network.cut(*pair)
    run.later(LAG_S, network.heal)
    return network.heal


def _depose(run: Targets, name: str) -> Callable[[], None]:
    """``/controller`` is deleted while the controller is paused and an AlterPartition request waits for it. When the
    old controller resumes, its session is still alive, but another controller exists.
    """
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


def _outlived(run: Targets, name: str) -> Callable[[], None]:
    """All other brokers die, then this broker, the only one in sync. The others return before this broker."""
    names = [broker.name for broker in run.world.brokers.values()]
    others = [other for other in names if other != name]
    for other in others:
        run.broker(other).kill()
    run.later(7.5, run.broker(name).kill)
    for other in others:
        run.later(7.6, run.broker_starter(other))
    run.later(17, run.broker_starter(name))
    return _nothing


def _unnoticed(run: Targets, name: str) -> Callable[[], None]:
    """The controller's machine loses power, and its broker returns before the session expires, so no controller
    notices.
    """
    controller = _controller(run)
    if controller is None or not run.broker(controller).is_alive:
        return _nothing
    run.broker(controller).lose_power()
    run.later(run.random.uniform(0.2, 4), run.broker_starter(controller))
    return _nothing


def _unsynced(run: Targets, name: str) -> Callable[[], None]:
    """The disk is too busy to sync closed segments; then the machine loses power."""
    broker = run.broker(name)
    if not broker.is_started or broker.process is None:
        return _nothing
    broker.process.thread_s = BUSY_DISK_S
    run.later(BUSY_DISK_S[0], broker.lose_power)
    run.later(BUSY_DISK_S[0] + 1, run.broker_starter(name))
    return partial(setattr, broker.process, "thread_s", THREAD_S)


def _unfinished_commits(run: Targets, name: str) -> Callable[[], None]:
    """The markers of the next prepared commit reach a leader only after the coordinator has moved."""

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


def _of_the_store(kind: str) -> Act:
    """A fault between the object store and one broker, or all."""

    def act(run: Targets, name: str) -> Callable[[], None]:
        return run.world.object_store.begin(kind, ALL if name == STORE else name)

    return act


STORE = "store"
OF_THE_STORE = {
    f"store-{kind}": _of_the_store(kind)
    for kind in (object_store.AWAY, object_store.SLOW, object_store.HANGS, object_store.FAILS, object_store.LOSES,
                 object_store.STALE)
}  # fmt: skip
"""The target of these faults is a broker, or STORE for all brokers."""
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
    **OF_THE_STORE,
}
COMPOSED = ("late-orders", "lag", "depose", "outlived", "unnoticed", "unsynced", "unfinished-commits")
"""Faults that each exercise one safeguard of replication or transactions. Their durations are fixed."""
DRAWN = tuple(kind for kind in KINDS if kind not in ("delete-claim", *COMPOSED, *OF_THE_STORE))
"""The faults that a seed draws by default. A new fault here would change the plans of all seeds."""
