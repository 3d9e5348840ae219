"""The events in lines of brokers; the messages are those of Apache Kafka 2.8 and 3.9."""

from datetime import UTC

import pytest

from kafka_zk.recorder.broker_logs.log_line import parse
from kafka_zk.recorder.broker_logs.patterns import CANDIDATE, MOST_LINE_CHARACTERS, Source, event_of
from kafka_zk.recorder.timeline.event_codec import decode, encode
from kafka_zk.recorder.timeline.outage_events import BrokerLogged

SERVER, GROUP = "kafka.server.KafkaServer", "kafka.coordinator.group.GroupCoordinator"


def told(message: str, logger: str = "a.B", exception: str = "") -> BrokerLogged | None:
    line = f"[2026-11-30 00:21:48,029] INFO {message} ({logger})"
    parsed = parse(line, UTC)
    assert parsed is not None
    event = event_of(parsed, "broker-9", Source("server.log", 7, line, exception))
    assert event is None or CANDIDATE.search(line.encode()), "the reader would skip the line"
    return event


@pytest.mark.parametrize(
    ("message", "exception", "said"),
    [
        ("[KafkaServer id=1] Fatal error during KafkaServer startup. Prepare to shutdown",
         "java.lang.RuntimeException: Invalid cluster.id in: /data/meta.properties. Expected a, but read b",
         "has failed at its startup: Invalid cluster.id in: /data/meta.properties. Expected a, but read b"),
        ("[ReplicaManager broker=1] Error processing append operation on partition t-0",
         "org.apache.kafka.common.errors.NotEnoughReplicasException: The size of the ISR is insufficient",
         "refuses records for t-0: The size of the ISR is insufficient"),
        ("Session 0x10000 for server zk/10.0.0.9:2181, Closing socket connection. Attempting reconnect except it is a "
         "SessionExpiredException.", "java.net.ConnectException: Connection refused",
         "has lost its connection to ZooKeeper at zk/10.0.0.9:2181: Connection refused"),
        ("Session 0x10000 for server zk/10.0.0.9:2181, unexpected error, closing socket connection and attempting "
         "reconnect", "a.b.EndOfStreamException", "has lost its connection to ZooKeeper at zk/10.0.0.9:2181: "
         "EndOfStreamException"),
        ("[Controller id=1] Resigned", "a.NotForThisException: x", "is not the controller any more"),
    ],
)  # fmt: skip
def test_an_exception_below_a_line_is_its_cause(message: str, exception: str, said: str) -> None:
    event = told(message, SERVER, exception)
    assert event is not None and event.said == said


@pytest.mark.parametrize(
    ("message", "logger", "kind", "subject", "said"),
    [
        ("[KafkaServer id=1] started", SERVER, "broker started", "", "has started"),
        ("[KafkaServer id=1] shut down completed", SERVER, "broker stopped", "", "has shut down"),
        ("[KafkaServer id=1] Fatal error during KafkaServer startup. Prepare to shutdown", SERVER, "broker failed", "",
         "has failed at its startup"),
        ("Attempting recovery for all logs in /data since no clean shutdown file was found", "kafka.log.LogManager",
         "unclean start", "/data", "was not shut down cleanly before: recovers the logs in /data"),
        ("Stopping serving logs in dir /data", "kafka.log.LogManager", "disk failed", "/data",
         "stops serving the log directory /data"),
        ("Shutdown broker because all log dirs in /a, /b have failed", "kafka.log.LogManager", "disk failed", "/a, /b",
         "stops: all log directories have failed (/a, /b)"),
        ("[ZooKeeperClient Kafka server] Session expired.", "kafka.zookeeper.ZooKeeperClient", "session expired", "",
         "its ZooKeeper session expired"),
        ("Client session timed out, have not heard from server in 4002ms for session id 0x1000", "x.ClientCnxn",
         "session silent", "", "has heard nothing from ZooKeeper for 4002 ms"),
        ("Unable to reconnect to ZooKeeper service, session 0x10000 has expired", "x.ClientCnxn", "session expired",
         "0x10000", "its ZooKeeper session 0x10000 has expired"),
        ("[Controller id=1] 1 successfully elected as the controller. Epoch incremented to 3 and epoch zk version is "
         "now 3", "k", "controller elected", "", "is elected controller, epoch 3"),
        ("[Controller id=1] Resigned", "k", "controller resigned", "", "is not the controller any more"),
        ("[Controller id=1] Newly added brokers: 3, deleted brokers: 1,2, bounced brokers: , all live brokers: 3", "k",
         "brokers changed", "", "sees brokers: new 3; gone 1,2"),
        ("[Partition t-0 broker=2] Shrinking ISR from 2,1 to 2. Leader: (highWatermark: 5, endOffset: 9). Out of sync "
         "replicas: (brokerId: 1, endOffset: 5).", "k", "isr changed", "t-0",
         "shrinks the ISR of t-0 from 2,1 to 2: broker 1 fell behind"),
        ("[Partition t-0 broker=2] Expanding ISR from 2 to 2,1", "k", "isr changed", "t-0",
         "expands the ISR of t-0 from 2 to 2,1"),
        ("[Partition t-0 broker=2] ISR updated to 2 (under-min-isr) and version updated to 4", "k", "isr changed",
         "t-0", "the ISR of t-0 is now 2, below min.insync.replicas"),
        ("[UnifiedLog partition=t-0, dir=/data] Truncating to offset 41", "k", "truncated", "t-0",
         "truncates t-0 to offset 41"),
        ("[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Truncating t-0 to offset 41 below high watermark 44",
         "k", "truncated", "t-0",
         "truncates t-0 to offset 41, below its high watermark 44: it loses committed records"),
        ("[GroupCoordinator 2]: Member c-1 in group g has failed, removing it from the group", GROUP, "member failed",
         "g", "group g: c-1 is removed, because it sent no heartbeat within its session timeout"),
        ("[GroupCoordinator 2]: Member[group.instance.id None, member.id c-1] in group g has left, removing it from "
         "the group", GROUP, "member left", "g", "group g: c-1 leaves"),
        ("[GroupCoordinator 2]: Member MemberMetadata(memberId=c-1, groupInstanceId=None, clientId=c, "
         "clientHost=/10.0.0.7, sessionTimeoutMs=45000, rebalanceTimeoutMs=300000, supportedProtocols=List(range, "
         "sticky)) has left group g through explicit `LeaveGroup`; client reason: the consumer is being closed",
         GROUP, "member left", "g",
         "group g: c-1 at 10.0.0.7 leaves (the client says: the consumer is being closed)"),
        ("[GroupCoordinator 2]: Preparing to rebalance group g in state PreparingRebalance with old generation 4 "
         "(__consumer_offsets-12) (reason: removing member c-1 on heartbeat expiration; client reason: not provided)",
         GROUP, "rebalance begins", "g",
         "group g rebalances after generation 4: removing member c-1 on heartbeat expiration"),
        ("[GroupCoordinator 2]: Stabilized group g generation 5 (__consumer_offsets-12) with 2 members", GROUP,
         "rebalance done", "g", "group g is stable at generation 5 with 2 members"),
        ("[GroupCoordinator 2]: Group g removed dynamic members who haven't joined: Set(c-1, c-2)", GROUP,
         "members late", "g", "group g: c-1, c-2 did not join the rebalance in time"),
        ("[GroupCoordinator id=1 topic=__consumer_offsets partition=0] [GroupId g] Member c-1 fenced from the group "
         "because the member session expired.", "x", "member fenced", "g",
         "group g: c-1 is removed, because the member session expired"),
    ],
)  # fmt: skip
def test_a_line_tells(message: str, logger: str, kind: str, subject: str, said: str) -> None:
    event = told(message, logger)
    assert event is not None
    assert (event.kind, event.subject, event.said) == (kind, subject, said)
    assert (event.file, event.line_number, message in event.line) == ("server.log", 7, len(message) < 400)
    assert decode(encode(event)) == event


@pytest.mark.parametrize(
    "message",
    ["[GroupCoordinator 2]: Startup complete.", "[SocketServer id=1] started",
     "[UnifiedLog partition=t-0, dir=/data] Truncating to 0 has no effect as the largest offset in the log is -1",
     "[Controller id=1] Newly added brokers: , deleted brokers: , bounced brokers: , all live brokers: 3",
     "Member has left group", "Preparing to rebalance group"],
)  # fmt: skip
def test_other_lines_tell_nothing(message: str) -> None:
    assert told(message) is None


def test_a_line_without_a_broker_is_of_the_file_s_broker_and_long_ones_are_cut() -> None:
    event = told(f"Stopping serving logs in dir /{'x' * 600}", "kafka.log.LogManager")
    assert event is not None and (event.actor, len(event.line)) == ("broker-9", MOST_LINE_CHARACTERS)
