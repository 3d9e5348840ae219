"""The lesson's chapter on a controller that was replaced and does not know it."""

from typing import Any

from kafka_zk.broker.replica.events import ControllerIgnored
from kafka_zk.learn.lesson.broker_room import SESSION_TIMEOUT_MS, BrokerRoom
from kafka_zk.learn.lesson.late_orders import late_leader_and_isr, late_write

CHAPTER = 8
OLD, NEXT, THIRD = 0, 1, 2
EPOCH = "/controller_epoch"


def two_controllers(room: BrokerRoom) -> dict[str, Any]:
    """Pause the controller for longer than its session timeout, and send its late orders."""
    teacher = room.teacher
    teacher.chapter(CHAPTER, "Two controllers and the epoch")
    teacher.say(
        "Whoever creates the ephemeral znode /controller is the controller; with the same write it counts up "
        "/controller_epoch. But a session can end while its owner still runs: a long pause is enough. Then there are "
        "two brokers that think they are the controller. Broker 0 is the controller, and leads a partition:"
    )
    tp = room.topic("ledger", OLD)
    before = room.state(tp)
    found = room.znode(EPOCH)
    assert before is not None and found is not None, "both are there while there is a topic"
    old_epoch, old_version = int(found[0]), found[1].version
    room.show_znode("/controller")
    room.show_znode(EPOCH)
    room.show_state(tp)
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
        teacher.say(
            "There is another controller, with a higher epoch. What if the old one has orders under way, or sends one "
            "before it notices? This lesson now sends what broker 0 could send: first a write to ZooKeeper that makes "
            "it the leader again, then the request LeaderAndIsr to broker 2 that says the same. A controller writes "
            "only together with a check that /controller_epoch has the version that it made, all or nothing; and each "
            "of its requests carries its epoch."
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
        teacher.tell("Nothing has changed. Broker 0 goes on now, and finds that its session is over:")
        news.begin()
        room.resume(OLD)
        after = room.wait_in_isr(tp, OLD)
        for line in news.lines():
            teacher.show(line)
        room.show_state(tp)
    teacher.say(
        "So one number decides: who has the lower epoch is not obeyed. kafka-zk replay zombie-controller plays such a "
        "late order in a simulation, with this rule and without it; without it a topic with acknowledged records is "
        "deleted."
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
