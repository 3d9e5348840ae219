"""The lesson's chapter on unclean leader election: no leader, or one that lacks records."""

from typing import Any

from kafka_zk.learn.lesson.broker_room import BrokerRoom

CHAPTER = 7
CONTROLLER, LEADER, THIRD = 0, 1, 2


def unclean_election(room: BrokerRoom) -> dict[str, Any]:
    """The whole ISR is dead, and a broker outside the ISR is elected."""
    teacher = room.teacher
    teacher.chapter(CHAPTER, "An unclean election loses what it must")
    teacher.say(
        "Only a replica of the ISR may become the leader: it has every record that was acknowledged with acks=all. "
        "What if the whole ISR is dead? Then the partition has no leader until one of the ISR is back, or until "
        "somebody elects a replica that has missed something. This is an unclean election."
    )
    tp = room.topic("drafts", LEADER)
    with room.producer("all") as producer:
        producer.send(tp.topic, b"a", partition=0).result()
        teacher.tell(
            "The record a is on all three brokers. The followers die, brokers 0 and 2; the ISR is the leader alone. "
            "With min.insync.replicas=1, which is the default, it takes b and c alone, even with acks=all:"
        )
        for broker_id in (THIRD, CONTROLLER):
            room.kill(broker_id, expire=True)
            room.wait_out_of_isr(tp, broker_id)
        for value in (b"b", b"c"):
            offset = producer.send(tp.topic, value, partition=0).result().offset
            teacher.show(f"acks=all: {value.decode()} is acknowledged, offset {offset}")
    room.show_state(tp)
    teacher.tell("Now the leader dies, too, and broker 0 comes back, which has only a:")
    room.kill(LEADER, expire=True)
    room.restart(CONTROLLER)
    room.wait(lambda: room.controller_id() == CONTROLLER, "broker 0 as the controller")
    leaderless = room.wait_state(tp, lambda state: state.leader == -1)
    room.wait_registered(CONTROLLER)
    room.show_state(tp)
    teacher.say(
        "leader -1 is none. The ISR stays as it was: it says who must come back. With unclean.leader.election.enable="
        "true the controller would not wait for it. The default is false since Kafka 0.11; and so it is up to you."
    )
    teacher.tell(
        "You decide against b and c, as kafka-zk elect-leaders --topic drafts --partition 0 --unclean would. Then "
        "d is sent."
    )
    room.elect_unclean(tp)
    elected = room.wait_state(tp, lambda state: state.leader != -1)
    room.show_state(tp)
    with room.producer("all") as producer:
        offset = producer.send(tp.topic, b"d", partition=0).result().offset
    teacher.show(f"acks=all: d is acknowledged, offset {offset}")
    teacher.tell(
        "Broker 2 comes back, and then broker 1, the old leader. It is a follower now, and has b and c where the "
        "new leader has d:"
    )
    room.restart(THIRD)
    room.wait_in_isr(tp, THIRD)
    room.restart(LEADER)
    whole = room.wait_in_isr(tp, LEADER)
    room.show_state(tp)
    read = room.read(tp)
    teacher.show(f"a consumer reads: {' '.join(read)}")
    teacher.say(
        "A follower must have what its leader has, so it gives up b and c. They were acknowledged, and are nowhere "
        "now. Without the unclean election they would be here, but nobody could have read or written until then."
    )
    return {
        "leaderless_isr": leaderless.isr,
        "elected": elected.leader,
        "isr_at_the_end": sorted(whole.isr),
        "leader_epochs": [leaderless.leader_epoch, elected.leader_epoch],
        "d": offset,
        "read": read,
    }
