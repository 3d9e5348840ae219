"""Why and where a follower truncates its log (KIP-101)."""

import time
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.learn.lesson import questions
from kafka_zk.learn.lesson.broker_room import FETCH_WAIT_MS, BrokerRoom
from kafka_zk.learn.lesson.replica_log import ReplicaLog

CHAPTER = 9
NEXT, LEADER, THIRD = 0, 1, 2


def truncation(room: BrokerRoom) -> dict[str, Any]:
    """A dead leader's log has a record that no other replica has; then the broker returns."""
    teacher = room.teacher
    teacher.chapter(CHAPTER, "Why a follower truncates")
    teacher.say(
        "Replicas are equal up to the high watermark, which is the end of what the whole ISR has. Beyond it, the "
        "leader may have records that no other replica has. In every replica's log, each batch carries the epoch of "
        "the leader that wrote it, and the file leader-epoch-checkpoint beside the log lists the offset at which each "
        "epoch begins."
    )
    tp = room.topic("diary", LEADER)
    teacher.ask(questions.ONE_RECORD_TOO_MANY)
    teacher.tell(
        "The followers copy the records a and b. Then they are paused; broker 1 takes c with acks=1 and is killed. "
        "Broker 0 becomes the leader and takes d. The files of both brokers (offset: record):"
    )
    _diverge(room, tp)
    with room.producer("all") as producer:
        producer.send(tp.topic, b"d", partition=0).result()
    dead = _show(room, LEADER, tp)
    leader = _show(room, NEXT, tp)
    room.show_state(tp)
    teacher.say(
        "At offset 2, broker 1 has c and broker 0 has d. If broker 1 just continued to fetch from its end, offset 3, "
        "the two logs would stay different, and the record that a consumer reads would depend on the broker. So a "
        "follower sends its last epoch with each Fetch (before Kafka 2.7 in a separate request, "
        "OffsetForLeaderEpoch), and the leader responds with the offset at which that epoch ends in its own log. Here "
        f"epoch 0 ends at offset {_end_of(leader, 0)}. Broker 1 is restarted:"
    )
    room.restart(LEADER)
    room.wait_in_isr(tp, LEADER)
    back = _show(room, LEADER, tp)
    _show(room, NEXT, tp)
    teacher.say(
        "Broker 1 has truncated its log to offset 2, which removes c, and has fetched d. Until Kafka 0.11, a follower "
        "truncated to the high watermark that it knew itself. But a follower receives the high watermark one fetch "
        "late, so it could remove a committed record. If the leader died at that moment and this follower became the "
        "leader, the record was lost on every replica, although it was acknowledged with acks=all. For this reason "
        "KIP-101 made leader epochs part of the log."
    )
    return {
        "dead": dead.records,
        "leader": leader.records,
        "back": back.records,
        "epochs": back.epochs,
        "truncated_to": _end_of(leader, 0),
    }


def _diverge(room: BrokerRoom, tp: TopicPartition) -> None:
    """The old leader dies with a record of its own."""
    with room.producer("1") as producer:
        for value in (b"a", b"b"):
            producer.send(tp.topic, value, partition=0).result()
        room.wait_copied(tp, 2)
        room.pause(NEXT, THIRD)
        time.sleep(3 * FETCH_WAIT_MS / 1000)  # until the leader has responded to the followers' pending fetches
        producer.send(tp.topic, b"c", partition=0).result()
        room.kill(LEADER, expire=False)
    room.resume(NEXT, THIRD)
    room.expire(LEADER)
    room.wait_state(tp, lambda state: state.leader not in (-1, LEADER))


def _show(room: BrokerRoom, broker_id: int, tp: TopicPartition) -> ReplicaLog:
    found = room.replica_log(broker_id, tp)
    room.teacher.show(f"broker {broker_id}  {found}")
    return found


def _end_of(log: ReplicaLog, epoch: int) -> int:
    return min(offset for other, offset in log.epochs.items() if other > epoch)
