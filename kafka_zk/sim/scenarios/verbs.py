"""The statements of a scenario: a phrase and an action on the stage for each.

To add one, add a function here.
"""

from collections.abc import Callable, Iterable, Mapping

from twisted.internet.defer import ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.client import Create, SetData
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.sim.scenarios.stage import Stage, StageError, broker_member, zookeeper_member
from kafka_zk.sim.scenarios.statements import Phrase
from kafka_zk.sim.world.history import Chosen

Act = Callable[..., None]
VERBS: dict[Phrase, Act] = {}


def phrase(text: str) -> Callable[[Act], Act]:
    """Registers a function, which gets the stage and the values of the slots."""

    def enter(act: Act) -> Act:
        VERBS[Phrase(text)] = act
        return act

    return enter


# -- the cluster and its clients ----------------------------------------------------------------------------------


@phrase("brokers {count}")
def brokers(stage: Stage, count: int) -> None:
    """Start brokers in sequence; broker-1 becomes the controller."""
    stage.start_brokers(count)


@phrase("topic {topic} with {count} partition(s)")
def topic(stage: Stage, topic: str, count: int) -> None:
    """Create a topic, spread over the brokers; its records are durable before they are acknowledged."""
    stage.create_topic(topic, count)


@phrase("topic {topic} with {count} partition(s) on {broker}")
def topic_on(stage: Stage, topic: str, count: int, broker: str) -> None:
    """The same, with all partitions on one broker."""
    stage.create_topic(topic, count, [broker])


@phrase("topic {topic} replicated on {brokers}")
@phrase("topic {topic} replicated on {brokers} with {configs}")
def topic_replicated(stage: Stage, topic: str, brokers: list[str], configs: Mapping[str, str] | None = None) -> None:
    """Create a topic of one partition with these replicas, the preferred leader first, and configs (key=value)."""
    stage.create_topic(topic, 1, brokers, configs)


@phrase("delete topic {topic}")
def delete_topic(stage: Stage, topic: str) -> None:
    """Request the deletion in ZooKeeper, as old tools did; the controller runs it."""
    stage.wait_for(TopicRegistry(stage.tool).request_deletion(topic))


@phrase("{producer} sends {values} to {tp}")
def sends(stage: Stage, producer: str, values: list[str], tp: TopicPartition) -> None:
    """Send records of these values, by an idempotent producer with acks=all, without waiting for acknowledgements."""
    stage.admin()
    stage.produce(producer, tp, values)


@phrase("{producer} begins a transaction")
def begins_transaction(stage: Stage, producer: str) -> None:
    """Begin a transaction of the records that the producer sends from now on; its transactional.id is its name."""
    stage.admin()
    stage.wait_for(stage.transactional(producer).begin())


@phrase("{producer} commits the transaction")
def commits_transaction(stage: Stage, producer: str) -> None:
    """Commit, without waiting for the response; after a lost one, the producer asks again."""
    _end_transaction(stage, producer, is_committed=True)


@phrase("{producer} aborts the transaction")
def aborts_transaction(stage: Stage, producer: str) -> None:
    """Abort, without waiting for the response; after a lost one, the producer asks again."""
    _end_transaction(stage, producer, is_committed=False)


def _end_transaction(stage: Stage, producer: str, *, is_committed: bool) -> None:
    ending = stage.transactional(producer)
    if not ending.is_in_transaction:
        raise StageError(f'{producer} has no transaction: "{producer} begins a transaction" begins one')
    ensureDeferred(ending.end(is_committed=is_committed)).addErrback(stage.world.failed)


@phrase("{member} joins the ZooKeeper group of {topic}")
def joins_zookeeper_group(stage: Stage, member: str, topic: str) -> None:
    """Add a member to the ZooKeeper group; it reads, and commits every half second."""
    stage.admin()
    stage.join(member, lambda: zookeeper_member(stage, member, topic))


@phrase("{member} joins the broker's group of {topic}")
def joins_broker_group(stage: Stage, member: str, topic: str) -> None:
    """Add a member to the group that a broker coordinates; it reads, and commits every half second."""
    stage.admin()
    stage.join(member, lambda: broker_member(stage, member, topic))


@phrase("{member} commits {tp} at {offset}")
def commits(stage: Stage, member: str, tp: TopicPartition, offset: int) -> None:
    """Commit explicitly, without waiting for the response."""
    consumer = stage.member(member).consumer
    stage.history.add(Chosen(stage.world.now_ms, member, tp, offset))
    ensureDeferred(consumer.commit({tp: offset})).addErrback(stage.world.failed)


@phrase("{member} leaves")
def leaves(stage: Stage, member: str) -> None:
    """Leave the group in an orderly way."""
    ensureDeferred(stage.member(member).close()).addErrback(stage.world.failed)


# -- processes ----------------------------------------------------------------------------------------------------


@phrase("pause {name}")
def pause(stage: Stage, name: str) -> None:
    """SIGSTOP: the process does nothing, and messages to it wait."""
    stage.process(name).pause()


@phrase("resume {name}")
def resume(stage: Stage, name: str) -> None:
    """SIGCONT: the process's own timers run first, so it acts before it learns what happened meanwhile."""
    stage.process(name).resume()


@phrase("kill {name}")
def kill(stage: Stage, name: str) -> None:
    """SIGKILL: the process's writes stay in the page cache; its connections are closed."""
    stage.process(name).kill()


@phrase("cut the power of {broker}")
def power(stage: Stage, broker: str) -> None:
    """The broker loses everything that was not synced; its peers are not notified."""
    stage.broker(broker).lose_power()


@phrase("stop {broker}")
def stop(stage: Stage, broker: str) -> None:
    """Shut a broker down cleanly."""
    target = stage.broker(broker)
    if not target.is_started:
        raise StageError(f"{broker} does not run")
    stage.wait_for(target.stop())


@phrase("start {broker}")
def start(stage: Stage, broker: str) -> None:
    """Start a killed or stopped broker with its disk. It takes a moment until it serves."""
    target = stage.broker(broker)
    if target.is_alive:
        raise StageError(f"{broker} runs already")
    target.start()


# -- ZooKeeper ----------------------------------------------------------------------------------------------------


@phrase("expire the session of {name}")
def expire(stage: Stage, name: str) -> None:
    """ZooKeeper ends the session now; the process learns this a little later."""
    stage.world.zookeeper.expire(stage.client(name))


@phrase("break the connection of {name} to ZooKeeper")
def break_connection(stage: Stage, name: str) -> None:
    """The client reconnects in the same session; its watches are gone."""
    stage.client(name).disconnect()


@phrase("cut {name} off from ZooKeeper")
def cut_off(stage: Stage, name: str) -> None:
    """The connection breaks, and new ones fail until "let … through to ZooKeeper"."""
    stage.client(name).cut()


@phrase("let {name} through to ZooKeeper")
def let_through(stage: Stage, name: str) -> None:
    """End "cut … off from ZooKeeper"."""
    stage.client(name).heal()


@phrase("lose the answer to the next request of {name} to ZooKeeper")
def lose_answer(stage: Stage, name: str) -> None:
    """ZooKeeper applies the request, and the connection breaks before the response arrives."""
    stage.client(name).lose_request(applied=True)


@phrase("write {data} to znode {path}")
def write_znode(stage: Stage, data: str, path: str) -> None:
    """Write like a ZooKeeper shell; the znode is created if it does not exist."""
    raw = data.encode()
    there = stage.world.zookeeper.tree.exists(path) is not None
    stage.wait_for(stage.tool.multi([SetData(path, raw) if there else Create(path, raw)]))


@phrase("delete znode {path}")
def delete_znode(stage: Stage, path: str) -> None:
    """Delete like a ZooKeeper shell."""
    stage.wait_for(stage.tool.delete(path))


@phrase("take a backup of ZooKeeper")
def take_backup(stage: Stage) -> None:
    """Copy the znodes and sessions of ZooKeeper."""
    stage.backup = stage.world.zookeeper.backup()


@phrase("restore the backup of ZooKeeper")
def restore_backup(stage: Stage) -> None:
    """ZooKeeper restarts with the backup; everything written since is gone."""
    if stage.backup is None:
        raise StageError('there is no backup: "take a backup of ZooKeeper" makes one')
    stage.world.zookeeper.restore(stage.backup)


# -- the network --------------------------------------------------------------------------------------------------


@phrase("delay what {name} sends by {duration}")
def delay(stage: Stage, name: str, duration: int) -> None:
    """Delay everything that the host sends, until the network heals."""
    _check_names(stage, name)
    stage.world.network.slow_down(name, duration / 1000)


@phrase("hold back what {name} sends to {other}")
def hold_back(stage: Stage, name: str, other: str) -> None:
    """Nothing passes and neither side is notified; the data are delivered when the network heals."""
    _check_names(stage, name, other)
    stage.world.network.cut(name, other)


@phrase("hold back the open connections of {name} to {other}")
def hold_back_open(stage: Stage, name: str, other: str) -> None:
    """What the host sends on them arrives when the network heals, even if it has closed them. New connections work."""
    _check_names(stage, name, other)
    stage.world.network.hold_back(name, other)


@phrase("heal the network")
def heal(stage: Stage) -> None:
    """Deliver the delayed data and end all delays."""
    stage.world.network.heal()


# -- what the judges look at ---------------------------------------------------------------------------------------


@phrase("the group must read every record of {topic}")
def must_be_read(stage: Stage, topic: str) -> None:
    """The judges also look for records that no member of the ZooKeeper group has read in the end."""
    stage.to_be_read.add(topic)


@phrase("from here the group may cost {count} reads of registrations")
def may_cost(stage: Stage, count: int) -> None:
    """The judges also count how often ZooKeeper is asked for the list of members, or for the znode of one."""
    stage.allow_reads(count)


# -- time ---------------------------------------------------------------------------------------------------------


@phrase("wait {duration}")
def wait(stage: Stage, duration: int) -> None:
    """Let virtual time pass: ``wait 10 s``, ``wait 500 ms``."""
    stage.world.run_for(duration)


@phrase("wait until {condition}")
@phrase("wait until {condition} within {duration}")
def wait_until(stage: Stage, condition: Callable[[], bool], duration: int = 60_000) -> None:
    """Wait until the condition is true, for at most 60 s by default."""
    stage.until("the condition holds", condition, duration)


@phrase("expect not {condition}")
def expect_not(stage: Stage, condition: Callable[[], bool]) -> None:
    """Require that the condition is false now."""
    if condition():
        raise StageError("the condition holds, but must not")


@phrase("expect {condition}")
def expect(stage: Stage, condition: Callable[[], bool]) -> None:
    """Require that the condition is true now. The scenario continues either way, but fails if it is false."""
    if not condition():
        raise StageError("the condition does not hold")


def _check_names(stage: Stage, *names: str) -> None:
    for each in names:
        if each not in stage.names:
            raise StageError(f"unknown name {each}; there are: {', '.join(stage.names) or 'none yet'}")


def described() -> Iterable[tuple[str, str]]:
    return [(each.text, (act.__doc__ or "").strip()) for each, act in VERBS.items()]
