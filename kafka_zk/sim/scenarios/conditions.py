"""The conditions that a scenario can wait for or expect: a phrase and a check of the stage for each.

Most examine znodes, as any tool can. To add one, add a function here.
"""

import re
from collections.abc import Callable, Iterable

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.events import OwnershipLost
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.registry.znodes.controller import CONTROLLER, decode
from kafka_zk.registry.znodes.topics import decode_state, state_path, topic_path
from kafka_zk.sim.scenarios.stage import Stage
from kafka_zk.sim.scenarios.statements import Phrase
from kafka_zk.sim.world.clients import GROUP
from kafka_zk.sim.world.history import HandedOut, Lifted

Holds = Callable[..., bool]
CONDITIONS: dict[Phrase, Holds] = {}
JUDGES: dict[Phrase, Callable[..., bool]] = {}
"""Conditions on the judges' findings, called with the violations. The run of a seed accepts only these."""


def condition(text: str) -> Callable[[Holds], Holds]:
    """Registers a function, which gets the stage and the values of the slots."""

    def enter(holds: Holds) -> Holds:
        CONDITIONS[Phrase(text)] = holds
        return holds

    return enter


def judgement(text: str) -> Callable[[Holds], Holds]:
    """Registers a function, which gets the violations and the values of the slots."""

    def enter(holds: Holds) -> Holds:
        JUDGES[Phrase(text)] = holds
        return holds

    return enter


@condition("{broker} is the controller")
def is_controller(stage: Stage, broker: str) -> bool:
    """According to the znode /controller."""
    return _controller(stage) == stage.broker(broker).broker_id


@condition("another broker than {broker} is the controller")
def is_other_controller(stage: Stage, broker: str) -> bool:
    """According to the znode /controller."""
    return _controller(stage) not in (-1, stage.broker(broker).broker_id)


@condition("{broker} serves")
def serves(stage: Stage, broker: str) -> bool:
    """The broker has started."""
    return stage.broker(broker).is_started


@condition("{broker} leads {tp}")
def leads(stage: Stage, broker: str, tp: TopicPartition) -> bool:
    """According to the partition's state znode."""
    data = _data(stage, state_path(*tp))
    if data is None:
        return False
    return decode_state(tp.topic, tp.partition, data).leader == stage.broker(broker).broker_id


@condition("topic {topic} is there")
def is_there(stage: Stage, topic: str) -> bool:
    """The topic has a znode."""
    return _data(stage, topic_path(topic)) is not None


@condition("topic {topic} is gone")
def is_gone(stage: Stage, topic: str) -> bool:
    """The topic has no znode."""
    return not is_there(stage, topic)


@condition("everything is acknowledged")
def all_acknowledged(stage: Stage) -> bool:
    """Every record that producers sent is acknowledged."""
    return not any(producer.waiting for producer in stage.producers.values())


@condition("{producer} has ended its transaction")
def has_ended(stage: Stage, producer: str) -> bool:
    """The producer knows that its last transaction is committed or aborted."""
    return not stage.transactional(producer).is_in_transaction


@condition("{member} owns {tp}")
def owns(stage: Stage, member: str, tp: TopicPartition) -> bool:
    """According to the owner znode of the ZooKeeper group."""
    owner = _data(stage, znodes.owner_path(GROUP, *tp))
    return owner is not None and owner.decode().startswith(f"{GROUP}_{member}-")


@condition("{member} was robbed of {tp}")
def was_robbed(stage: Stage, member: str, tp: TopicPartition) -> bool:
    """The member's claim was deleted although its session had not ended."""
    lost = [
        fact.event for fact in stage.history.facts if isinstance(fact, Lifted) and isinstance(fact.event, OwnershipLost)
    ]
    return any(is_of(event.actor, member) and tp in event.partitions for event in lost)


@condition("{tp} has no owner")
def has_no_owner(stage: Stage, tp: TopicPartition) -> bool:
    """According to the owner znode of the ZooKeeper group."""
    return _data(stage, znodes.owner_path(GROUP, *tp)) is None


@condition("{tp} is committed at {offset}")
def is_committed(stage: Stage, tp: TopicPartition, offset: int) -> bool:
    """According to the offset znode of the ZooKeeper group."""
    return _data(stage, znodes.offset_path(GROUP, *tp)) == str(offset).encode()


@condition("{member} has read {count} record(s) of {tp}")
def has_read(stage: Stage, member: str, count: int, tp: TopicPartition) -> bool:
    """The member's program received at least this many records; repeated deliveries count."""
    return sum(is_of(each.actor, member) and each.tp == tp for each in _handed_out(stage)) >= count


@judgement("the judges find nothing")
def find_nothing(violations: list[str]) -> bool:
    """No promise is broken: records, consumers, controllers, epochs, owners, offsets, errors."""
    return not violations


@judgement("the judges find {text}")
def find(violations: list[str], text: str) -> bool:
    """One of the violations contains the string."""
    return any(text in each for each in violations)


def is_of(actor: str, member: str) -> bool:
    """``actor``: an id in the group."""
    return re.fullmatch(rf"({GROUP}_)?{re.escape(member)}(-.*)?", actor) is not None


def described() -> Iterable[tuple[str, str]]:
    return [(each.text, (holds.__doc__ or "").strip()) for each, holds in (CONDITIONS | JUDGES).items()]


def _controller(stage: Stage) -> int:
    data = _data(stage, CONTROLLER)
    return -1 if data is None else decode(data).broker_id


def _handed_out(stage: Stage) -> list[HandedOut]:
    return [fact for fact in stage.history.facts if isinstance(fact, HandedOut)]


def _data(stage: Stage, path: str) -> bytes | None:
    tree = stage.world.zookeeper.tree
    return (tree.get(path)[0] or b"") if tree.exists(path) is not None else None
