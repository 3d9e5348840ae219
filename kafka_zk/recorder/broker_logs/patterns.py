"""The lines of a broker's logs that report events: one table of messages of Apache Kafka 1.0 to 3.9. Pure.

Each row has a kind, the words that every such line contains, the pattern of the whole message, and the fact in a few
words. ``subject`` in a pattern is the partition, group, folder or server. Other lines are ignored. For some kinds, the
exception below the line is the cause.

Source: KafkaServer.scala, LogManager.scala, ReplicaManager.scala, ReplicaFetcherThread.scala, UnifiedLog.scala,
Partition.scala, KafkaController.scala, GroupCoordinator.scala, ZooKeeperClient.scala@2.8 and 3.9,
GroupMetadataManager.java@3.9; ClientCnxn.java@3.8 (ZooKeeper).
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from kafka_zk.recorder.broker_logs.log_line import LogLine
from kafka_zk.recorder.timeline.outage_events import BrokerLogged

MOST_LINE_CHARACTERS = 500
FAILED, ZOOKEEPER_LOST, WRITE_REFUSED = "broker failed", "ZooKeeper lost", "records refused"
REPEATED = (ZOOKEEPER_LOST, WRITE_REFUSED)
"""Kinds that a broker logs again and again while the problem lasts."""
_WITH_CAUSE = (FAILED, *REPEATED)
_SERVERS = ("kafka.server.KafkaServer", "kafka.server.BrokerServer", "kafka.server.KafkaRaftServer")
_NO_REASON = (None, "not provided")

_Say = Callable[[re.Match[str], LogLine], str | None]


class _Row(NamedTuple):
    """``said``: returns None if the line reports no event."""

    kind: str
    words: str
    pattern: re.Pattern[str]
    said: _Say


def _row(kind: str, words: str, pattern: str, said: str | _Say) -> _Row:
    """``said``: a function, or a string with names of the pattern's groups in braces."""
    told = said if callable(said) else lambda match, line: said.format(**match.groupdict())
    return _Row(kind, words, re.compile(pattern), told)


def _of_server(said: str) -> _Say:
    """Returns ``said`` only for a line of a server's own class, because other classes log the same message."""
    return lambda match, line: said if line.logger in _SERVERS else None


def _elected(match: re.Match[str], line: LogLine) -> str:
    return "is elected controller" + (f", epoch {match['epoch']}" if match["epoch"] else "")


def _brokers(match: re.Match[str], line: LogLine) -> str | None:
    names = (("new", "new"), ("gone", "gone"), ("again", "restarted"))
    changes = [f"{word} {match[name].strip(',')}" for name, word in names if match[name].strip(",")]
    return f"sees brokers: {'; '.join(changes)}" if changes else None


def _truncated(match: re.Match[str], line: LogLine) -> str:
    return f"truncates {_partition(line)} to offset {match['offset']}"


def _isr_updated(match: re.Match[str], line: LogLine) -> str:
    below = ", below min.insync.replicas" if "under-min-isr" in match["rest"] else ""
    return f"the ISR of {_partition(line)} is now {match['isr']}{below}"


def _isr_changes(match: re.Match[str], line: LogLine) -> str:
    change = f"the ISR of {_partition(line)} from {match['before']} to {match['isr']}"
    if match["verb"] == "Expanding":
        return f"expands {change}"
    behind = ", ".join(re.findall(r"brokerId: ([0-9]+)", match["rest"]))
    return f"shrinks {change}" + (f": broker {behind} fell behind" if behind else "")


def _left(match: re.Match[str], line: LogLine) -> str:
    host = re.search(r"clientHost=/?([^,)]+)", match["about"])
    reason = "" if match["reason"] in _NO_REASON else f" (the client says: {match['reason']})"
    return f"group {match['subject']}: {match['member']}{f' at {host[1]}' if host else ''} leaves{reason}"


def _prepares(match: re.Match[str], line: LogLine) -> str:
    reason, _, client = match["reason"].partition("; client reason: ")
    more = f" (the client says: {client})" if client and client not in _NO_REASON else ""
    return f"group {match['subject']} rebalances after generation {match['generation']}: {reason}{more}"


def _stabilized(match: re.Match[str], line: LogLine) -> str:
    count = f" with {match['count']} members" if match["count"] else ""
    return f"group {match['subject']} is stable at generation {match['generation']}{count}"


def _coordinates(match: re.Match[str], line: LogLine) -> str:
    verb = "coordinates" if match["verb"] == "Elected" else "no longer coordinates"
    return f"{verb} the groups of __consumer_offsets-{match['subject']}"


def _partition(line: LogLine) -> str:
    return _subject(line) or "a partition"


def _subject(line: LogLine) -> str:
    """The partition in the prefix of a partition's or a log's line, "" in other lines."""
    found = re.match(r"Partition (\S+)|(?:Unified)?Log partition=([^, \]]+)", line.prefix)
    return (found[1] or found[2]) if found else ""


_OF_BROKERS = (
    _row("broker starting", "starting", r"starting", _of_server("starts")),
    _row("broker started", "started", r"started", _of_server("has started")),
    _row("broker stopping", "shutting down", r"shutting down", _of_server("shuts down")),
    _row("broker stopped", "shut down completed", r"shut down completed", _of_server("has shut down")),
    _row(FAILED, "Fatal error during", r"Fatal error during \S+ (?P<what>startup|shutdown).*",
         "has failed at its {what}"),
    _row(ZOOKEEPER_LOST, "losing socket connection",
         r"Session 0x\w+ for (?:sever|server) (?P<subject>\S+), .*losing socket connection.*",
         "has lost its connection to ZooKeeper at {subject}"),
    _row("unclean stop", "Proceeding to do an unclean shutdown", r"Proceeding to do an unclean shutdown .*",
         "stops without controlled shutdown, which has failed: its leaders have not moved"),
    _row("unclean start", "no clean shutdown file was found",
         r"(?:Recovering \d+ logs from|Attempting recovery for all logs in) (?P<subject>\S+) since no clean .*",
         "was not shut down cleanly before: recovers the logs in {subject}"),
    _row("disk failed", "Stopping serving", r"Stopping serving (?:logs|replicas) in dir (?P<subject>\S+).*",
         "stops serving the log directory {subject}"),
    _row("disk failed", "because all log dirs", r"Shutdown broker because all log dirs in (?P<subject>.*) have .*",
         "stops: all log directories have failed ({subject})"),
    _row("disk failed", "Halting broker because dir", r"Halting broker because dir (?P<subject>\S+) is offline",
         "stops: the log directory {subject} is offline"),
    _row("session silent", "Client session timed out", r"Client session timed out, .* in (?P<ms>\d+)ms .*",
         "has heard nothing from ZooKeeper for {ms} ms"),
    _row("session expired", "Session expired", r"Session expired\.", "its ZooKeeper session expired"),
    _row("session expired", "has expired",
         r"Unable to reconnect to ZooKeeper service, session (?P<subject>0x\w+) has expired.*",
         "its ZooKeeper session {subject} has expired"),
)  # fmt: skip
_OF_CONTROLLERS = (
    _row("controller elected", "successfully elected as the controller",
         r"\d+ successfully elected as the controller\.?(?: Epoch incremented to (?P<epoch>\d+).*)?", _elected),
    _row("controller ready", "Ready to serve as the new controller",
         r"Ready to serve as the new controller with epoch (?P<epoch>\d+).*", "acts as controller, epoch {epoch}"),
    _row("controller resigned", "Resigned", r"Resigned", "is not the controller any more"),
    _row("controller resigned", "Controller moved to another broker", r".*Controller moved to another broker.*",
         "sees that another broker is the controller"),
    _row("brokers changed", "Newly added brokers",
         r"Newly added brokers: (?P<new>[\d,]*), deleted brokers: (?P<gone>[\d,]*), "
         r"bounced brokers: (?P<again>[\d,]*)(?: .*)?", _brokers),
    _row("broker leaves", "Shutting down broker", r"Shutting down broker (?P<subject>\d+)",
         "moves the leaders away from broker {subject}, which shuts down"),
    _row("leader elected", "from OfflinePartition to OnlinePartition",
         r"Changed partition (?P<subject>\S+) from OfflinePartition to OnlinePartition .*?leader=(?P<leader>\d+).*",
         "elects broker {leader} as leader of {subject}, which had none"),
    _row("leader elected", "completed preferred replica leader election",
         r"Partition (?P<subject>\S+) completed preferred replica leader election\. New leader is (?P<leader>\d+)",
         "elects the preferred leader {leader} of {subject} again"),
    _row("no leader", "Failed to elect leader", r"Failed to elect leader for partition (?P<subject>\S+) under .*",
         "cannot elect a leader of {subject}"),
)  # fmt: skip
_OF_REPLICAS = (
    _row(WRITE_REFUSED, "Error processing append operation",
         r"Error processing append operation on partition (?P<subject>\S+)", "refuses records for {subject}"),
    _row("isr changed", "ing ISR from",
         r"(?P<verb>Shrinking|Expanding) ISR from (?P<before>[\d,]*) to (?P<isr>[\d,]*)(?P<rest>.*)", _isr_changes),
    _row("isr changed", "ISR updated to", r"ISR updated to \[?(?P<isr>[\d,]*)(?P<rest>.*)", _isr_updated),
    _row("truncated", "Truncating to offset", r"Truncating to offset (?P<offset>\d+)", _truncated),
    _row("truncated", "below high watermark",
         r"Truncating (?P<subject>\S+) to offset (?P<offset>\d+) below high watermark (?P<mark>\d+)",
         "truncates {subject} to offset {offset}, below its high watermark {mark}: it loses committed records"),
    _row("truncated", "Truncate fully",
         r"Truncate fully and reset fetch offset for partition (?P<subject>\S+) from (?P<before>\d+) to .*? "
         r"(?P<offset>\d+) because .*", "drops its log of {subject} up to offset {before}, and begins at {offset}"),
)  # fmt: skip
_OF_GROUPS = (
    _row("member failed", "has failed, removing it",
         r"Member (?P<member>\S+) in group (?P<subject>\S+) has failed, removing it from the group",
         "group {subject}: {member} is removed, because it sent no heartbeat within its session timeout"),
    _row("member left", "has left group",
         r"Member (?:MemberMetadata\(memberId=)?(?P<member>[^\s,)]+)(?P<about>.*?) has left group (?P<subject>\S+) "
         r"through explicit `LeaveGroup`(?: request)?(?:; client reason: (?P<reason>.*))?", _left),
    _row("member left", "has left, removing it",
         r"Member\[group\.instance\.id .*?, member\.id (?P<member>\S+)\] in group (?P<subject>\S+) has left, .*",
         "group {subject}: {member} leaves"),
    _row("member fenced", "fenced from the group",
         r"\[GroupId (?P<subject>\S+)\] Member (?P<member>\S+) fenced from the group because (?P<reason>.*)\.",
         "group {subject}: {member} is removed, because {reason}"),
    _row("members late", "who haven't joined",
         r"Group (?P<subject>\S+) removed dynamic members who haven't joined: Set\((?P<members>.*)\).*",
         "group {subject}: {members} did not join the rebalance in time"),
    _row("static member", "Static member with groupInstanceId",
         r"Static member with groupInstanceId=(?P<instance>\S+) and unknown member id joins group (?P<subject>\S+) in "
         r"\S+ state\. Replacing .*", "group {subject}: static member {instance} is back and keeps its partitions"),
    _row("rebalance begins", "Preparing to rebalance group",
         r"Preparing to rebalance group (?P<subject>\S+) in state \S+ with old generation (?P<generation>\d+) "
         r"\(.*?\) \(reason: (?P<reason>.*)\)", _prepares),
    _row("rebalance done", "Stabilized group",
         r"Stabilized group (?P<subject>\S+) generation (?P<generation>\d+) \(.*?\)(?: with (?P<count>\d+) members)?.*",
         _stabilized),
    _row("group empty", "is now empty", r"Group (?P<subject>\S+) with generation \d+ is now empty.*",
         "group {subject} is empty"),
    _row("coordinator", "as the group coordinator",
         r"(?P<verb>Elected|Resigned) as the group coordinator for partition (?P<subject>\d+) .*", _coordinates),
)  # fmt: skip
_ROWS = (*_OF_BROKERS, *_OF_CONTROLLERS, *_OF_REPLICAS, *_OF_GROUPS)

CANDIDATE = re.compile("|".join(sorted({re.escape(row.words) for row in _ROWS})).encode())
"""Matches every line that a row may match, and few other lines."""


class Source(NamedTuple):
    """Where a line is, the line itself, and the line below it if that begins an exception, else ""."""

    file: str
    line_number: int
    text: str
    exception: str = ""


def event_of(line: LogLine, broker: str, source: Source) -> BrokerLogged | None:
    """The event that a line reports; None for other lines. ``broker``: the actor if the line's prefix does not name a
    broker."""
    for row in _ROWS:
        match = row.pattern.fullmatch(line.message) if row.words in line.message else None
        said = None if match is None else row.said(match, line)
        if match is not None and said is not None:
            actor = broker if line.broker_id is None else f"broker-{line.broker_id}"
            subject = match.groupdict().get("subject") or _subject(line)
            if row.kind in _WITH_CAUSE and source.exception:
                said = f"{said}: {_cause(source.exception)}"
            where = source.file, source.line_number, source.text[:MOST_LINE_CHARACTERS]
            return BrokerLogged(line.time_ms, actor, row.kind, 0, row.kind, subject, said, *where)
    return None


def _cause(exception: str) -> str:
    """The exception's message without the class, or else the class without its package."""
    name, _, message = exception.partition(": ")
    return (message or name.rpartition(".")[2])[:MOST_LINE_CHARACTERS]
