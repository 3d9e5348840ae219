"""The lesson's chapter on the value of a producer's acknowledgement: acks and min.insync.replicas."""

import time
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import BrokerError
from kafka_zk.learn.lesson import questions
from kafka_zk.learn.lesson.broker_room import FETCH_WAIT_MS, BrokerRoom
from kafka_zk.learn.lesson.errors import LessonFailed

CHAPTER = 6
CONTROLLER, LEADER, THIRD = 0, 1, 2


def acks_and_min_isr(room: BrokerRoom) -> dict[str, Any]:
    """acks=1 loses records; acks=all with min.insync.replicas=2 rejects some."""
    teacher = room.teacher
    teacher.chapter(CHAPTER, "What an acknowledgement is worth")
    teacher.say(
        "With acks=1 the leader acknowledges a record after writing it to its own log. With acks=all it waits until "
        "every replica of the ISR has the record. This chapter uses two topics with three replicas: letters, and "
        "payments, which has min.insync.replicas=2."
    )
    letters = room.topic("letters", LEADER)
    payments = room.topic("payments", CONTROLLER, {"min.insync.replicas": "2"})
    report = {"acks=1": _lost(room, letters), "acks=all": _refused(room, payments)}
    teacher.say(
        "With acks=all, an acknowledged record survives as long as one replica of the ISR survives. acks=all alone "
        "does not guarantee a second copy, because the ISR can be the leader alone; min.insync.replicas=2 does. The "
        "price: if two of three brokers are dead, producers cannot write. Consumers can still read."
    )
    return report


def _lost(room: BrokerRoom, tp: TopicPartition) -> dict[str, Any]:
    """Only the leader had the record when it died."""
    teacher = room.teacher
    teacher.ask(questions.WORTH_OF_ONE)
    teacher.tell(
        "First acks=1. The producer sends a, and the followers copy it. Then the followers, brokers 0 and 2, are "
        "paused for a moment, as if the network were slow, and the producer sends b. Broker 1, the leader, "
        "acknowledges b and is then killed, before a follower has fetched it. (In this chapter the session of a dead "
        "broker expires immediately.)"
    )
    with room.producer("1") as producer:
        producer.send(tp.topic, b"a", partition=0).result()
        room.wait_copied(tp, 1)
        room.pause(CONTROLLER, THIRD)
        time.sleep(3 * FETCH_WAIT_MS / 1000)  # until the leader has responded to the followers' pending fetches
        offset = producer.send(tp.topic, b"b", partition=0).result().offset
        teacher.show(f"acks=1: b is acknowledged, offset {offset}")
        room.kill(LEADER, expire=False)
    room.resume(CONTROLLER, THIRD)
    room.expire(LEADER)
    room.wait_state(tp, lambda state: state.leader not in (-1, LEADER))
    room.show_state(tp)
    with room.producer("1") as producer:
        after = producer.send(tp.topic, b"c", partition=0).result().offset
    teacher.show(f"acks=1: c is acknowledged, offset {after}")
    room.wait_copied(tp, after + 1)
    read = room.read(tp)
    teacher.show(f"a consumer reads: {' '.join(read)}")
    teacher.say(
        "b is lost, although it was acknowledged: broker 0 was in the ISR and did not have it. A replica of the ISR "
        f"has kept up within replica.lag.time.max.ms; it need not have every record. Now c has offset {after}, "
        "which was b's."
    )
    return {"acknowledged": {"b": offset, "c": after}, "read": read}


def _refused(room: BrokerRoom, tp: TopicPartition) -> dict[str, Any]:
    teacher = room.teacher
    teacher.tell("Now acks=all and min.insync.replicas=2. Broker 1 is still dead:")
    room.wait_out_of_isr(tp, LEADER)
    outcomes = [_sent(room, tp, "d")]
    teacher.ask(questions.ONE_REPLICA_LEFT)
    teacher.tell("Broker 2 is killed, too:")
    room.kill(THIRD, expire=True)
    room.wait_out_of_isr(tp, THIRD)
    outcomes.append(_sent(room, tp, "e"))
    teacher.tell("Broker 1 is started again, and then broker 2. They catch up:")
    for broker_id in (LEADER, THIRD):
        room.restart(broker_id)
        room.wait_in_isr(tp, broker_id)
    outcomes.append(_sent(room, tp, "f"))
    read = room.read(tp)
    teacher.show(f"a consumer reads: {' '.join(read)}")
    return {"outcomes": outcomes, "read": read}


def _sent(room: BrokerRoom, tp: TopicPartition, value: str) -> str:
    """Send a record, without a retry if it is rejected; returns the outcome."""
    room.show_state(tp)
    with room.producer("all", retries=0) as producer:
        try:
            offset = producer.send(tp.topic, value.encode(), partition=0).result().offset
        except BrokerError as error:
            if error.code is None:
                raise LessonFailed(f"{value} was refused without a reason: {error}") from error
            room.teacher.show(f"acks=all: {value} is refused, {error.code.name}")
            return error.code.name
    room.teacher.show(f"acks=all: {value} is acknowledged, offset {offset}")
    return f"offset {offset}"
