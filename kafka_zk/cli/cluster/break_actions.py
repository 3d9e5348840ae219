"""The actions of ``kafka-zk break`` and the web page, and their effects. Pure."""

from typing import Any, NamedTuple

BROKER, MEMBER, GROUP, TOPIC = "broker", "member", "group", "topic"


class Action(NamedTuple):
    """``target``: the kind of target, and its key in a request. ``expected``: the effect, in a sentence with
    ``{session}`` for the session timeout and ``{dead}`` for the effect on a dead broker's session.
    """

    name: str
    target: str
    expected: str


ACTIONS = {
    action.name: action
    for action in (
        Action("kill", BROKER, "Its session {dead}; then the controller elects other leaders for its partitions."),
        Action("restart", BROKER, "It registers in a new session, and follows until it has caught up with leaders."),
        Action("pause", BROKER, "It answers no request; after {session} its session ends and other brokers lead."),
        Action("resume", BROKER, "If its session is over, it registers again and learns what it leads now."),
        Action("expire", BROKER, "Its ephemeral znodes are deleted now; it notices and registers in a new session."),
        Action("cut", BROKER, "Cut off from ZooKeeper, it loses its session after {session}, though clients still "
               "reach it; cut off from other brokers, it falls out of the ISR, or its followers do."),
        Action("delay", BROKER, "Everything on these connections is delayed, in each direction: watches fire late, "
               "followers lag, writes with acks=all take longer. A delay of seconds can cost the session."),
        Action("mend", BROKER, "It can connect again, without delay; if its session is over, it registers again."),
        Action("fill-disk", BROKER, "Its files cannot grow any more, as on a full disk. At the next write to a log it "
               "gives up its only log directory and therefore ends; others lead."),
        Action("free-disk", BROKER, "Its files can grow again. If it has ended meanwhile, restart it."),
        Action("join", GROUP, "The group rebalances: the new member gets its share of the partitions."),
        Action("leave", MEMBER, "It commits, releases its partitions and leaves; the others take them immediately."),
        Action("crash", MEMBER, "It leaves without notice: its partitions are silent until its session is over, 6 s, "
               "then the others take them and read again what it had not committed."),
        Action("produce", TOPIC, "Records come in at this rate: throughput and high watermarks rise, groups follow."),
    )
}  # fmt: skip


def expected(name: str, session_s: float, supervised: bool) -> str:
    session = f"{session_s:g} s"
    dead = "is closed at once" if supervised else f"runs out in {session}"
    return ACTIONS[name].expected.format(session=session, dead=dead)


def target_of(name: str, request: dict[str, Any]) -> str:
    """The target of a request as text: ``broker 2``, ``board/anna``, ``flights``."""
    kind = ACTIONS[name].target
    told = str(request.get(kind, ""))
    return f"broker {told}" if kind == BROKER else told
