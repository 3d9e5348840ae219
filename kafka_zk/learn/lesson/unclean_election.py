"""Unclean leader election: no leader, or a leader that lacks records."""

from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.learn.lesson import questions
from kafka_zk.learn.lesson.broker_room import BrokerRoom
from kafka_zk.registry.znodes.topics import LeaderIsrAndControllerEpoch

CHAPTER = 7
CONTROLLER, LEADER, THIRD = 0, 1, 2


def unclean_election(room: BrokerRoom) -> dict[str, Any]:
    """The whole ISR dies; a broker outside of it is elected."""
    teacher = room.teacher
    teacher.chapter(CHAPTER, "What an unclean election loses")
    teacher.say(
        "Only a replica of the ISR may become the leader: it has every record that was acknowledged with acks=all. "
        "What if the whole ISR is dead? Then the partition has no leader until a member of the ISR returns, or until "
        "an operator elects a replica that lacks records. The latter is an unclean election."
    )
    tp = room.topic("drafts", LEADER)
    with room.producer("all") as producer:
        producer.send(tp.topic, b"a", partition=0).result()
        teacher.tell(
            "The record a is on all three brokers. The followers, brokers 0 and 2, are killed, and the ISR is the "
            "leader alone. With min.insync.replicas=1, the default, the leader alone accepts b and c, even with "
            "acks=all:"
        )
        for broker_id in (THIRD, CONTROLLER):
            room.kill(broker_id, expire=True)
            room.wait_out_of_isr(tp, broker_id)
        for value in (b"b", b"c"):
            offset = producer.send(tp.topic, value, partition=0).result().offset
            teacher.show(f"acks=all: {value.decode()} is acknowledged, offset {offset}")
    room.show_state(tp)
    teacher.ask(questions.NOBODY_OF_THE_ISR)
    teacher.tell("Now the leader is killed, too, and broker 0 returns, which has only a:")
    room.kill(LEADER, expire=True)
    room.restart(CONTROLLER)
    room.wait(lambda: room.controller_id() == CONTROLLER, "broker 0 as the controller")
    leaderless = room.wait_state(tp, lambda state: state.leader == -1)
    room.wait_registered(CONTROLLER)
    room.show_state(tp)
    teacher.say(
        "leader -1 means that there is no leader. The ISR does not change: it lists the brokers that must return. "
        "With unclean.leader.election.enable=true, the controller would not wait for them. The default has been false "
        "since Kafka 0.11, so the decision is yours."
    )
    teacher.tell(
        "You decide to give up b and c, as `kafka-zk elect-leaders --topic drafts --partition 0 --unclean` would. "
        "Then d is sent."
    )
    elected, offset = _elect(room, tp)
    teacher.ask(questions.OLD_RECORDS)
    teacher.tell(
        "Broker 2 returns, then broker 1, the old leader. Broker 1 is a follower now, and has b and c where the new "
        "leader has d:"
    )
    room.restart(THIRD)
    room.wait_in_isr(tp, THIRD)
    room.restart(LEADER)
    whole = room.wait_in_isr(tp, LEADER)
    room.show_state(tp)
    read = room.read(tp)
    teacher.show(f"a consumer reads: {' '.join(read)}")
    teacher.say(
        "A follower's log must equal its leader's, so broker 1 removes b and c. They were acknowledged, and now no "
        "broker has them. Without the unclean election they would still exist, but until broker 1 returned, clients "
        "could neither write nor read."
    )
    return {
        "leaderless_isr": leaderless.isr,
        "elected": elected.leader,
        "isr_at_the_end": sorted(whole.isr),
        "leader_epochs": [leaderless.leader_epoch, elected.leader_epoch],
        "d": offset,
        "read": read,
    }


def _elect(room: BrokerRoom, tp: TopicPartition) -> tuple[LeaderIsrAndControllerEpoch, int]:
    """The state after the unclean election, and the offset of d."""
    room.elect_unclean(tp)
    elected = room.wait_state(tp, lambda state: state.leader != -1)
    room.show_state(tp)
    with room.producer("all") as producer:
        offset = producer.send(tp.topic, b"d", partition=0).result().offset
    room.teacher.show(f"acks=all: d is acknowledged, offset {offset}")
    return elected, offset
