"""The lesson's chapter on the death of a leader, as seen in the znodes."""

from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.events import LeadersElected, RequestSent
from kafka_zk.broker.replica.events import RoleChanged
from kafka_zk.learn.lesson import questions
from kafka_zk.learn.lesson.broker_room import SESSION_TIMEOUT_MS, BrokerRoom
from kafka_zk.recorder.timeline.cluster_events import BrokerGone
from kafka_zk.registry.znodes.brokers import broker_path

CHAPTER = 5
LEADER = 1


def leader_dies(room: BrokerRoom) -> dict[str, Any]:
    """The leader dies and comes back, seen in ZooKeeper."""
    teacher = room.teacher
    teacher.chapter(CHAPTER, "A leader dies")
    teacher.say(
        "Each partition has a replica on each of the three brokers. One replica is the leader: it takes all writes. "
        "The others are followers: they fetch from the leader. The replicas that have kept up are the in-sync "
        "replicas (ISR). One broker is the controller: it chooses the leaders. All of this is in znodes. Broker 0 is "
        "the controller, and broker 1 leads a partition:"
    )
    tp = room.topic("orders", LEADER)
    room.show_znode("/controller")
    room.show_znode("/controller_epoch")
    room.show_znode(broker_path(LEADER), data_matters=False)
    room.show_state(tp)
    teacher.say(
        "An ephemeral znode exists as long as the session of the client that created it. Now broker 1 is killed, "
        "without closing its session. ZooKeeper receives no more heartbeats from it and ends the session after "
        f"{SESSION_TIMEOUT_MS / 1000:g} s (18 s by default). In the meantime, a producer with acks=all has a record to "
        "send."
    )
    with room.watched() as news, room.producer("all") as producer:
        producer.send(tp.topic, b"before the death", partition=0).result()
        news.begin()
        room.kill(LEADER, expire=False)
        future = producer.send(tp.topic, b"after it", partition=0)
        room.wait(future.done, "the acknowledgement of a record")
        acknowledged = news.seconds()
        offset = future.value().offset
        shown = room.wait_state(tp, lambda state: state.leader not in (-1, LEADER))
        teacher.ask(questions.HOW_IT_IS_NOTICED)
        teacher.tell("What happened, in seconds after the kill, and which process did it:")
        for line in news.lines():
            teacher.show(line)
        teacher.show(f"{acknowledged}  {'producer':<12}  its record is acknowledged, offset {offset}")
        happened = list(news.all)
        _show(room, tp)
        teacher.say(
            "Read it from the top. The session ends, and ZooKeeper deletes its ephemeral znode. The controller had "
            "set a watch on /brokers/ids. From the partition's list of replicas it chooses the first one that is "
            "alive and in the ISR, increases the leader epoch and writes the state znode. Only then does it notify "
            "the brokers: with LeaderAndIsr those that have a replica, with UpdateMetadata all of them. From then on, "
            "brokers refuse requests with the old leader epoch. The producer retried until it found the new leader, "
            "and lost nothing."
        )
        teacher.ask(questions.AFTER_ITS_RETURN)
        teacher.tell(f"Broker {LEADER} is started again.")
        news.begin()
        room.restart(LEADER)
        whole = room.wait_in_isr(tp, LEADER)
        for line in news.lines():
            teacher.show(line)
        _show(room, tp)
    teacher.say(
        "The broker is back, in a new session, as a follower. When it has fetched all committed records, the leader "
        "asks the controller to add it to the ISR (AlterPartition). The leader epoch stays, because the leader is the "
        "same. The old leader leads again after a preferred leader election: on request, or by the controller, which "
        "checks every five minutes whether leaders are unevenly distributed (not in this lesson)."
    )
    return {
        "killed": LEADER,
        "controller": room.controller_id(),
        "leader": shown.leader,
        "leader_epoch": shown.leader_epoch,
        "isr": sorted(shown.isr),
        "isr_at_the_end": sorted(whole.isr),
        "record_offset": offset,
        "order": _order(happened),
    }


def _show(room: BrokerRoom, tp: TopicPartition) -> None:
    room.show_znode(broker_path(LEADER), data_matters=False)
    room.show_state(tp)


def _order(events: list[Any]) -> list[str]:
    kinds = (BrokerGone, LeadersElected, RoleChanged, RequestSent)
    first: dict[str, int] = {}
    for event in events:
        if isinstance(event, kinds):
            first[type(event).__name__] = min(event.time_ms, first.get(type(event).__name__, event.time_ms))
    return sorted(first, key=lambda kind: first[kind])
