"""``kafka-zk compact``: make the brokers clean a compacted topic now.

Kafka has no request for this. The command sets the topic's ``min.cleanable.dirty.ratio`` to 0 for a while, so that the
log cleaner selects every log that has anything to clean. It needs an admin's rights and brokers with DescribeLogDirs
and IncrementalAlterConfigs (2.3).
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kafka_zk.cli.terminal.command_config import command_security, secured
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import bootstrap_option, json_option, zookeeper_option
from kafka_zk.cli.terminal.output import note, print_rows

if TYPE_CHECKING:
    from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
    from kafka_zk.clients.connection.metadata import TopicMetadata

RATIO = "min.cleanable.dirty.ratio"
SEGMENT_MS = "segment.ms"
ROLL_MS = "1000"
DEFAULT_BACKOFF_MS = 15_000
PICKUP_S = 5.0
"""Maximum time until a broker has a changed config and has cleaned a small log."""
POLL_S = 0.2


class Replica(NamedTuple):
    partition: int
    broker: int


class Settling:
    """Cleaning is over when no replica has shrunk for a while. Times are on any clock."""

    def __init__(self, before: Mapping[Replica, int], quiet_s: float, now_s: float) -> None:
        self.before = dict(before)
        self.sizes = dict(before)
        self._quiet_s = quiet_s
        self._changed_s = now_s

    def seen(self, sizes: Mapping[Replica, int], now_s: float) -> bool:
        """True if cleaning is over. Growth does not count: producers write."""
        if any(size < self.sizes.get(replica, 0) for replica, size in sizes.items()):
            self._changed_s = now_s
        self.sizes = dict(sizes)
        return now_s - self._changed_s >= self._quiet_s


@click.command("compact", short_help="Have brokers clean a compacted topic now.")
@click.option("--topic", required=True)
@click.option("--partition", type=click.IntRange(0), help="Wait for this partition only; others may be cleaned, too.")
@click.option("--roll", is_flag=True, help=f"Also set {SEGMENT_MS}={ROLL_MS}: the next record closes the last segment.")
@click.option("--timeout", "timeout_s", type=click.IntRange(1), default=600, show_default=True, help="In seconds.")
@bootstrap_option
@zookeeper_option("Find the brokers in ZooKeeper.")
@json_option
def command(
    topic: str,
    partition: int | None,
    roll: bool,
    timeout_s: int,
    bootstrap: str,
    zookeeper: str | None,
    as_json: bool,
) -> None:
    """Have brokers clean a topic with cleanup.policy=compact now, even if little of it is dirty.

    A log cleaner removes records that have a later record with the same key. It waits until half of a log is dirty
    (min.cleanable.dirty.ratio) and never cleans the active segment. This command sets the ratio to 0, waits until the
    logs have stopped shrinking (the brokers' log.cleaner.backoff.ms plus 5 s), and restores the setting. It works with
    Apache Kafka's brokers, too.

    If it is killed, remove the setting: kafka-configs --alter --delete-config min.cleanable.dirty.ratio.

    \b
    kafka-zk compact --topic t
    kafka-zk compact --topic t --partition 0 --roll
    """
    from kafka_zk.cli.terminal.waiting import waiting
    from kafka_zk.clients.admin.blocking_admin import BlockingAdmin

    servers = bootstrap if zookeeper is None else _brokers(zookeeper)
    with BlockingAdmin(bootstrap_servers=servers, **secured()) as admin:
        replicas, quiet_s = _checked(admin, topic, partition)
        changes = {RATIO: "0.0"} | ({SEGMENT_MS: ROLL_MS} if roll else {})
        settling = Settling(_sizes(admin, topic, replicas), quiet_s, time.monotonic())
        with _set_for_now(admin, topic, changes), waiting(f"the log cleaner to clean {topic}", timeout_s):
            is_settled = _settle(admin, topic, replicas, settling, timeout_s)
    print_rows(("partition", "broker", "before_bytes", "after_bytes"), _rows(settling), as_json)
    if not is_settled:
        raise CommandFailed(f"the logs of {topic} are still shrinking after {timeout_s} s: give a longer --timeout")
    if all(settling.sizes.get(each, 0) >= size for each, size in settling.before.items()):
        note(
            "Nothing was removed: no key comes twice before the last segment (give --roll to close it), or records are "
            "younger than min.compaction.lag.ms, or the log cannot be cleaned; the broker's log and "
            "uncleanable-partitions-count say which."
        )


def _brokers(zookeeper: str) -> str:
    from kafka_zk.cli.terminal.zookeeper_client import zookeeper_client
    from kafka_zk.clients.connection.config import format_bootstrap_servers
    from kafka_zk.registry.brokers import BrokerRegistry
    from kafka_zk.registry.client.kazoo_blocking import run_blocking

    with zookeeper_client(zookeeper) as client:
        live = run_blocking(BrokerRegistry(client).live())
    protocol = command_security().protocol
    addresses = [address for info, _ in live.values() if (address := info.address(protocol)) is not None]
    if not addresses:
        raise CommandFailed(f"no broker with a {protocol} listener is registered in ZooKeeper at {zookeeper}")
    return format_bootstrap_servers(addresses)


def _checked(admin: "BlockingAdmin", topic: str, partition: int | None) -> tuple[list[Replica], float]:
    """Return the replicas, and the seconds without shrinking that end the wait."""
    from kafka_zk.cli.terminal.brokers import check_topics

    check_topics(admin, [topic])
    policy = {entry.name: entry.value for entry in admin.describe_topic_configs([topic])[topic]}["cleanup.policy"]
    if "compact" not in (policy or "").split(","):
        raise CommandFailed(f"topic {topic} has cleanup.policy={policy}: only compacted topics are cleaned")
    replicas = _replicas(admin.describe_topics([topic])[topic], partition)
    backoffs_ms = [_backoff_ms(admin, broker) for broker in sorted({each.broker for each in replicas})]
    return replicas, max(backoffs_ms) / 1000 + PICKUP_S


def _replicas(topic: "TopicMetadata", partition: int | None) -> list[Replica]:
    wanted = [each for each in topic.partitions if partition is None or each.partition == partition]
    if not wanted:
        raise CommandFailed(f"topic {topic.name} has no partition {partition}, only 0 to {len(topic.partitions) - 1}")
    leaderless = [each.partition for each in wanted if each.leader < 0]
    if leaderless:
        raise CommandFailed(f"partition {leaderless[0]} of topic {topic.name} has no leader")
    return [Replica(each.partition, broker) for each in wanted for broker in each.isr]


def _backoff_ms(admin: "BlockingAdmin", broker: int) -> int:
    values = {entry.name: entry.value for entry in admin.describe_broker_configs(broker)}
    if values.get("log.cleaner.enable") == "false":
        raise CommandFailed(f"broker {broker} cleans nothing: it has log.cleaner.enable=false")
    return int(values.get("log.cleaner.backoff.ms") or DEFAULT_BACKOFF_MS)


@contextlib.contextmanager
def _set_for_now(admin: "BlockingAdmin", topic: str, changes: Mapping[str, str]) -> Iterator[None]:
    entries = {entry.name: entry for entry in admin.describe_topic_configs([topic])[topic]}
    before = {key: entries[key].value if entries[key].source == "DYNAMIC_TOPIC_CONFIG" else None for key in changes}
    admin.alter_topic_config(topic, dict(changes))
    try:
        yield
    finally:
        admin.alter_topic_config(topic, before)


def _settle(
    admin: "BlockingAdmin", topic: str, replicas: Sequence[Replica], settling: Settling, timeout_s: float
) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while not settling.seen(_sizes(admin, topic, replicas), time.monotonic()):
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(POLL_S)
    return True


def _sizes(admin: "BlockingAdmin", topic: str, replicas: Sequence[Replica]) -> dict[Replica, int]:
    from kafka_zk.base.types import TopicPartition

    sizes = {}
    for broker in {each.broker for each in replicas}:
        tps = [TopicPartition(topic, each.partition) for each in replicas if each.broker == broker]
        found = admin.log_sizes(broker, tps)
        sizes.update({Replica(tp.partition, broker): size for tp, size in found.items()})
    return sizes


def _rows(settling: Settling) -> list[dict[str, Any]]:
    return [
        {
            "partition": replica.partition,
            "broker": replica.broker,
            "before_bytes": size,
            "after_bytes": settling.sizes.get(replica),
        }
        for replica, size in sorted(settling.before.items())
    ]
