"""The lesson's chapter on a controller that was replaced without noticing."""

from typing import Any

from kafka_zk.broker.replica.events import ControllerIgnored
from kafka_zk.learn.lesson import questions
from kafka_zk.learn.lesson.broker_room import SESSION_TIMEOUT_MS, BrokerRoom
from kafka_zk.learn.lesson.late_orders import late_leader_and_isr, late_write

CHAPTER = 8
OLD, NEXT, THIRD = 0, 1, 2
EPOCH = "/controller_epoch"


def two_controllers(room: BrokerRoom) -> dict[str, Any]:
    """A controller is paused for longer than its session timeout; then its late orders arrive."""
    teacher = room.teacher
    teacher.chapter(CHAPTER, "Two controllers and the epoch")
    teacher.say(
        "The broker that creates the ephemeral znode /controller is the controller; in the same write it increases "
        "/controller_epoch. But a session can end while its owner is still running: a long pause is enough. Then two "
        "brokers believe that they are the controller. Broker 0 is the controller and leads a partition:"
    )
    tp = room.topic("ledger", OLD)
    before = room.state(tp)
    found = room.znode(EPOCH)
    assert before is not None and found is not None, "both are there while there is a topic"
    old_epoch, old_version = int(found[0]), found[1].version
    room.show_znode("/controller")
    room.show_znode(EPOCH)
    room.show_state(tp)
    teacher.ask(questions.DURING_THE_PAUSE)
    teacher.tell(f"Broker 0 is paused, for longer than its session of {SESSION_TIMEOUT_MS / 1000:g} s:")
    with room.watched() as news:
        news.begin()
        room.pause(OLD)
        room.wait_state(tp, lambda state: state.leader not in (-1, OLD))
        for line in news.lines():
            teacher.show(line)
        new_controller = room.controller_id()
        room.show_znode("/controller")
        room.show_znode(EPOCH)
        room.show_state(tp)
        teacher.ask(questions.LATE_ORDERS)
        teacher.say(
            "Another broker is the controller now, with a higher epoch. What happens to requests that the old "
            "controller has already sent, or sends before it notices? The lesson now sends two of them in the name of "
            "broker 0: a write to ZooKeeper that makes broker 0 the leader again, and the same in a LeaderAndIsr "
            "request to broker 2. A controller makes each write together with a check that /controller_epoch still "
            "has the version that it created, all or nothing. Each of its requests carries its epoch."
        )
        news.begin()
        refusal = late_write(room.client, old_version, tp, before)
        teacher.show(f"ZooKeeper: {refusal}")
        code = late_leader_and_isr(room.client, THIRD, OLD, old_epoch, tp, before)
        teacher.show(f"broker {THIRD}: {code.name}")
        for line in news.lines():
            teacher.show(line)
        ignored = any(isinstance(event, ControllerIgnored) for event in news.all)
        room.show_state(tp)
        teacher.tell("Nothing has changed. Now broker 0 is resumed, and finds that its session has ended:")
        news.begin()
        room.resume(OLD)
        after = room.wait_in_isr(tp, OLD)
        for line in news.lines():
            teacher.show(line)
        room.show_state(tp)
    teacher.say(
        "One number decides: a request with a lower epoch is refused. `kafka-zk replay zombie-controller` simulates "
        "such a late request with this rule and without it; without it, a topic with acknowledged records is deleted."
    )
    return {
        "old_epoch": old_epoch,
        "new_controller": new_controller,
        "new_epoch": after.controller_epoch,
        "zookeeper": refusal,
        "broker": code.name,
        "told_in_trace": ignored,
        "leader": after.leader,
        "isr": sorted(after.isr),
    }
