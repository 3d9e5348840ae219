"""The lesson's chapter on why a follower truncates its log, and where (KIP-101)."""

import time
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.learn.lesson.broker_room import FETCH_WAIT_MS, BrokerRoom
from kafka_zk.learn.lesson.replica_log import ReplicaLog

CHAPTER = 9
NEXT, LEADER, THIRD = 0, 1, 2


def truncation(room: BrokerRoom) -> dict[str, Any]:
    """A dead leader's log has a record that no other replica has; then the broker returns."""
    teacher = room.teacher
    teacher.chapter(CHAPTER, "Why a follower truncates")
    teacher.say(
        "Replicas are equal up to the high watermark: what the whole ISR has. Beyond it the leader may have records "
        "that nobody else has. In the logs of all replicas each batch has the epoch of the leader that took it, and "
        "the file leader-epoch-checkpoint beside the log tells where each epoch begins."
    )
    tp = room.topic("diary", LEADER)
    teacher.tell(
        "The records a and b are copied. Then the followers are paused, broker 1 takes c with acks=1, and is killed. "
        "Broker 0 becomes the leader, and takes d. The files of both (offset: record):"
    )
    _diverge(room, tp)
    with room.producer("all") as producer:
        producer.send(tp.topic, b"d", partition=0).result()
    dead = _show(room, LEADER, tp)
    leader = _show(room, NEXT, tp)
    room.show_state(tp)
    teacher.say(
        "At offset 2 broker 1 has c, and broker 0 has d. If broker 1 only went on fetching from its end, offset 3, "
        "their logs would differ for ever, and consumers would get another record from another broker. So a follower "
        "tells its last epoch with each Fetch (before Kafka 2.7 with a request of its own, OffsetForLeaderEpoch), and "
        "the leader answers where that epoch ends in its log. Here that is epoch 0, which ends at offset "
        f"{_end_of(leader, 0)}. Broker 1 is started again:"
    )
    room.restart(LEADER)
    room.wait_in_isr(tp, LEADER)
    back = _show(room, LEADER, tp)
    _show(room, NEXT, tp)
    teacher.say(
        "It has truncated to offset 2, c is gone, and d was fetched. Until Kafka 0.11 a follower asked nobody: it "
        "truncated to the high watermark that it knew itself. But a follower hears of the high watermark one fetch "
        "late. So it could throw away a record that was committed, and when the leader died just then and it became "
        "the leader itself, the record was lost everywhere, although it was acknowledged with acks=all. This is why "
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
    """The old leader dies with a record that no other replica has."""
    with room.producer("1") as producer:
        for value in (b"a", b"b"):
            producer.send(tp.topic, value, partition=0).result()
        room.wait_copied(tp, 2)
        room.pause(NEXT, THIRD)
        time.sleep(3 * FETCH_WAIT_MS / 1000)  # until the leader has answered the followers' pending fetches
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
    """The offset where the epoch after this one begins."""
    return min(offset for other, offset in log.epochs.items() if other > epoch)
