"""The lesson's chapter on ACLs and quotas: the connected users, what they may do, and how much."""

import time
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.process.events import ClientsSeen, ThrottledClient
from kafka_zk.broker.security.events import Denied
from kafka_zk.clients.connection.errors import BrokerError
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.learn.lesson import questions
from kafka_zk.learn.lesson.cluster_room import News
from kafka_zk.learn.lesson.errors import LessonFailed
from kafka_zk.learn.lesson.secured_room import ADMIN, ALICE, BOB, WINDOW_COUNT, SecuredRoom
from kafka_zk.registry.client.events import Reread
from kafka_zk.registry.znodes import acl_change
from kafka_zk.registry.znodes.acl import pattern_path
from kafka_zk.registry.znodes.config import CONFIG_CHANGES
from kafka_zk.security.acl import WILDCARD, WILDCARD_PRINCIPAL, Acl, Operation, Pattern, PatternType, Permission
from kafka_zk.security.acl import ResourceType as Resource

CHAPTER = 10
WRITER, LEADER = 0, 1
"""The broker that the admin client asks, and the topic's leader."""
BYTE_RATE = 100_000
RECORD_BYTES, RECORDS = 10_000, 60
_KINDS = (ClientsSeen, Denied, Reread)
_PREFIX = "let"


def permissions(room: SecuredRoom) -> dict[str, Any]:
    """One broker writes an ACL and a quota, and another enforces them; a denial has a reason."""
    teacher = room.teacher
    teacher.chapter(CHAPTER, "What you may do, and how much")
    teacher.say(
        "Here every client logs in: TLS encrypts its connection, and with a name and a password it proves who it is. "
        "For the brokers it is then a principal, such as User:alice. ACLs say what a principal may do, and quotas how "
        f"much. {ADMIN} is a super user and may do everything; {ALICE} and {BOB} have nothing yet. There are two "
        "brokers."
    )
    tp = room.topic("letters", LEADER)
    with room.watched(_KINDS) as news, room.producer(ALICE) as producer:
        report = {
            "refused": _refused(room, news, producer, tp),
            "connected": _connected(room, news),
            "allowed": _allowed(room, news, producer, tp),
            "denied": _denied(room, news, tp),
            "throttled": _throttled(room, news, producer, tp),
        }
    room.dismiss()
    return report


def _refused(room: SecuredRoom, news: News, producer: BlockingProducer, tp: TopicPartition) -> str:
    room.teacher.ask(questions.LOGGED_IN)
    room.teacher.tell(f"{ALICE} sends a record to the topic {tp.topic}. No ACL allows it:")
    news.begin()
    try:
        producer.send(tp.topic, b"a", partition=0).result()
    except BrokerError as error:
        if error.code is None:
            raise LessonFailed(f"{ALICE} was refused without a code: {error}") from error
        room.teacher.show(f"{ALICE} gets {error.code.name}")
        _show_denial(room, news, ALICE)
        return error.code.name
    raise LessonFailed(f"{ALICE} may write to {tp.topic} without an ACL")


def _connected(room: SecuredRoom, news: News) -> dict[str, int]:
    room.teacher.tell(f"She is still connected. This is what broker {WRITER} sees of its clients:")
    found: dict[str, int] = {}

    def is_seen() -> bool:
        seen = [each for each in news.read() if isinstance(each, ClientsSeen) and each.actor == f"broker-{WRITER}"]
        if seen:
            found.clear()
            found.update({each.principal: each.connection_count for each in seen[-1].clients})
        return f"User:{ALICE}" in found

    room.wait(is_seen, f"broker {WRITER} to report {ALICE}")
    for principal in sorted(found):
        room.teacher.show(f"broker {WRITER}: {principal}, from 127.0.0.1, over SASL_SSL")
    room.teacher.say(
        f"The other broker is connected as User:{ADMIN}: brokers log in to each other as well. kafka-zk up --secure "
        "--web shows the same on its page: who is connected, who was denied what, and who is held back."
    )
    return found


def _allowed(room: SecuredRoom, news: News, producer: BlockingProducer, tp: TopicPartition) -> dict[str, Any]:
    """An ACL that one broker writes reaches the other through a znode watch."""
    teacher = room.teacher
    pattern = Pattern(Resource.TOPIC, tp.topic, PatternType.LITERAL)
    acl = Acl(f"User:{ALICE}", WILDCARD, Operation.WRITE, Permission.ALLOW)
    added = {pattern: [acl]}
    teacher.ask(questions.HEARS_OF_AN_ACL)
    teacher.tell(
        f"{ADMIN} adds an ACL through broker {WRITER}, as kafka-zk acls add --topic {tp.topic} --allow-principal "
        f"User:{ALICE} --operation write would:"
    )
    news.begin()
    with room.admin(WRITER) as admin:
        admin.acls.add_acls(added)
    parent = acl_change.PARENTS[PatternType.LITERAL]
    room.show_znode(pattern_path(pattern))
    room.show_znode(room.last_child(parent))
    _show_reread(room, news, parent)
    teacher.say(
        f"Broker {WRITER} wrote both znodes in one transaction: the ACLs of the topic, and a notification that names "
        f"it. Every broker watches {parent}. Broker {LEADER} leads the topic, so it decides whether {ALICE} may write; "
        "its watch fired, and it read the notification, then the ACLs. No broker asks ZooKeeper during a request."
    )
    room.wait_obeyed(LEADER, added)
    offset = producer.send(tp.topic, b"a", partition=0).result().offset
    teacher.show(f"{ALICE} sends the record again: it is acknowledged, offset {offset}")
    return {"acl": str(acl), "offset": offset}


def _denied(room: SecuredRoom, news: News, tp: TopicPartition) -> str:
    """A Deny overrides every Allow, and the denial names it."""
    teacher = room.teacher
    teacher.tell(
        f"{ADMIN} lets everyone read topics that begin with {_PREFIX!r} (--prefixed), but denies {BOB} this topic. "
        f"Then {BOB} reads:"
    )
    added = {
        Pattern(Resource.TOPIC, _PREFIX, PatternType.PREFIXED): [
            Acl(WILDCARD_PRINCIPAL, WILDCARD, Operation.READ, Permission.ALLOW)
        ],
        Pattern(Resource.TOPIC, tp.topic, PatternType.LITERAL): [
            Acl(f"User:{BOB}", WILDCARD, Operation.READ, Permission.DENY)
        ],
    }
    news.begin()
    with room.admin(WRITER) as admin:
        admin.acls.add_acls(added)
    _show_reread(room, news, acl_change.PARENTS[PatternType.LITERAL])
    room.wait_obeyed(LEADER, added)
    with room.reader(ALICE) as reader:
        teacher.show(f"{ALICE} reads: {_read(reader, tp)}")
    with room.reader(BOB) as reader:
        teacher.show(f"{BOB} reads: {_read(reader, tp)}")
    reason = _show_denial(room, news, BOB)
    teacher.say(
        "A matching Deny beats every Allow, and without any matching ACL the answer is no. The reason is the ACL that "
        f"decided. kafka-zk acls explain --principal User:{BOB} --operation read --topic {tp.topic} finds it without "
        "a request. Clients get only the code: a topic that they may not describe looks the same whether it exists or "
        "not."
    )
    return reason


def _read(reader: BlockingReader, tp: TopicPartition) -> str:
    try:
        reader.assign({tp: "earliest"})
        end = reader.end_offsets([tp])
        return " ".join((record.value or b"").decode() for records in reader.batches(end) for record in records)
    except BrokerError as error:
        return error.code.name if error.code is not None else str(error)


def _throttled(room: SecuredRoom, news: News, producer: BlockingProducer, tp: TopicPartition) -> dict[str, Any]:
    """The same records without and with a quota, which brokers read from ZooKeeper."""
    teacher = room.teacher
    size = RECORDS * RECORD_BYTES
    teacher.tell(
        f"Now {ALICE} sends {RECORDS} records of {RECORD_BYTES // 1000} KB, {size // 1000} KB in all: first as fast as "
        f"she can, then with a quota of {BYTE_RATE // 1000} KB a second. {ADMIN} sets it through broker {WRITER}:"
    )
    free_s = _send_all(producer, tp)
    teacher.show(f"without a quota: {_rate(size, free_s)}")
    news.begin()
    with room.admin(WRITER) as admin:
        admin.alter_client_quotas({"user": ALICE}, {"producer_byte_rate": float(BYTE_RATE)})
    quotas = room.quotas(ALICE)
    teacher.show(f"/config/users/{ALICE}  {', '.join(f'{key}={value}' for key, value in quotas.items())}")
    room.show_znode(room.last_child(CONFIG_CHANGES))
    _show_reread(room, news, CONFIG_CHANGES)
    throttled = _wait_throttled(room, news, producer, tp)
    held_s = _send_all(producer, tp)
    teacher.show(f"with the quota:  {_rate(size, held_s)}")
    teacher.show(
        f"broker {LEADER}: holds back {throttled.user}, {throttled.key} of {throttled.bound:,}, by "
        f"{throttled.throttle_ms:,} ms on average"
    )
    teacher.say(
        "No broker was restarted, and no record was refused. A broker answers at once and says in the response for how "
        "long the client should wait (throttle_time_ms). Then it does not read from the connection for that time, so "
        f"that clients which ignore it wait as well. Here the broker measures over the last {WINDOW_COUNT} seconds (11 "
        "by default), so a client that was idle may exceed the rate for a moment. A quota is per broker: with two "
        "leaders, alice gets twice as much."
    )
    return {
        "quotas": quotas,
        "free_s": round(free_s, 2),
        "held_s": round(held_s, 2),
        "by": {"key": throttled.key, "user": throttled.user, "bound": throttled.bound},
    }


def _send_all(producer: BlockingProducer, tp: TopicPartition) -> float:
    begin_s = time.monotonic()
    for future in [producer.send(tp.topic, bytes(RECORD_BYTES), partition=0) for _ in range(RECORDS)]:
        future.result()
    return time.monotonic() - begin_s


def _rate(size: int, seconds: float) -> str:
    return f"{size // 1000} KB took {seconds:.1f} s, {size / seconds / 1000:,.0f} KB a second"


def _wait_throttled(room: SecuredRoom, news: News, producer: BlockingProducer, tp: TopicPartition) -> ThrottledClient:
    found: list[ThrottledClient] = []

    def is_throttled() -> bool:
        producer.send(tp.topic, bytes(RECORD_BYTES), partition=0).result()
        seen = [each for each in news.read() if isinstance(each, ClientsSeen) and each.actor == f"broker-{LEADER}"]
        found[:] = [each for event in seen for each in event.throttled]
        return bool(found)

    room.wait(is_throttled, f"broker {LEADER} to report that it holds back {ALICE}")
    return found[-1]


def _show_denial(room: SecuredRoom, news: News, user: str) -> str:
    found: list[Denied] = []

    def is_denied() -> bool:
        found[:] = [each for each in news.read() if isinstance(each, Denied) and each.principal == f"User:{user}"]
        return bool(found)

    room.wait(is_denied, f"a denial of {user}")
    last = found[-1]
    broker = last.actor.replace("-", " ")
    room.teacher.show(f"{broker} denies User:{user} {last.operation} on {last.resource} ({last.request}): {last.cause}")
    return last.cause


def _show_reread(room: SecuredRoom, news: News, parent: str) -> None:
    actors: set[str] = set()

    def is_read() -> bool:
        actors.update(each.actor for each in news.read() if isinstance(each, Reread) and each.path == parent)
        return len(actors) > max(WRITER, LEADER)

    room.wait(is_read, f"both brokers to read {parent}")
    for actor in sorted(actors):
        room.teacher.show(f"{actor.replace('-', ' ')}: a watch on {parent} fired, and it reads what changed")
