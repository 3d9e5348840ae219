"""A broker of ours and one of Apache Kafka 3.9.1 replicate a tiered topic to each other and share one folder as remote
storage.

Leaders of both kinds stop and die while idempotent producers write with acks=all. All acknowledged records can then be
read once through either broker, most of them only from remote storage, and read_committed gives no aborted records. The
same holds when each kind has started on the other's logs. At the end, each kind starts without logs, and begins from
remote storage.
"""

import shutil
from collections import Counter
from pathlib import Path
from types import MappingProxyType

import pytest

from kafka_zk.protocol.remote_log_metadata import decode_remote_log_record, encode_remote_log_record
from kafka_zk.storage.tiered.metadata_partition import METADATA_TOPIC
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata
from tests.peers import jars
from tests.peers.clusters.mixed_cluster import APACHE_KAFKA, KINDS
from tests.peers.clusters.mixed_rounds import JvmRounds
from tests.peers.clusters.tiered_transactions import TRANSACTED, Values, read_committed, write_transactions
from tests.peers.processes import wait_until
from tests.soak.replicated_cluster import OURS, SESSION_TIMEOUT_S, START_S, Broker, Kind, ReplicatedCluster
from tests.soak.replication_history import values
from tests.soak.replication_rounds import KILL, PAUSE, STOP, TOPIC, Fault, play_campaign
from tests.soak.tiered_rounds import METADATA_PARTITIONS, TieredRounds, tiered_properties

pytestmark = pytest.mark.peers

ROUNDS = 10
"""Maximum number of rounds per seed; the next seed begins with new brokers."""


class MixedTieredRounds(TieredRounds, JvmRounds):
    kind = "tiered storage of both kinds"
    replicas = 2
    actions = (KILL, KILL, STOP, PAUSE)
    """No pause exceeds the session: otherwise, a leader that does not know its successor yet refuses later records as
    out of order, and librdkafka gives up for good."""
    librdkafka = MappingProxyType({**JvmRounds.librdkafka, **TieredRounds.librdkafka})


def cluster_of_both(folder: Path) -> ReplicatedCluster:
    [jar] = jars.jars(jars.TIERED_STORAGE).glob("*.jar")
    properties = {
        **tiered_properties(folder, MixedTieredRounds.replicas),
        "remote.log.storage.manager.class.path": str(jar),
        "controller.socket.timeout.ms": "15000",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": "2",
        "transaction.state.log.min.isr": "1",
    }
    return ReplicatedCluster(folder, KINDS, properties)


def of_kind(cluster: ReplicatedCluster, kind: Kind) -> Broker:
    return next(each for each in cluster.brokers if each.kind is kind)


def hand_over(rounds: MixedTieredRounds, cluster: ReplicatedCluster, action: str, kind: Kind) -> None:
    """Stop the only broker of this kind under load, so that the other leads everything, and restart it."""
    victim = of_kind(cluster, kind)
    rounds.play([Fault(action, victim, victim, cluster, SESSION_TIMEOUT_S)])


def is_full(cluster: ReplicatedCluster) -> bool:
    """True if every ISR has both brokers, so that one can lead when the other is stopped."""
    return all(
        len(state.isr) == len(cluster.brokers)
        for topic in (TOPIC, TRANSACTED, METADATA_TOPIC)
        for state in cluster.states(topic).values()
    )


def read_through_each(
    rounds: MixedTieredRounds, cluster: ReplicatedCluster, committed: Values, when: str, *, empties: bool = False
) -> None:
    """Read everything while one broker is stopped, then while the other is. ``empties``: the brokers restart without
    logs."""
    for stopped in cluster.brokers:
        [other] = (each for each in cluster.brokers if each is not stopped)
        wait_until(lambda: is_full(cluster), START_S, "all replicas in sync")
        stopped.stop()
        rounds.wait_led([stopped.broker_id], START_S)
        rounds.read_again(f"{when}, through {other.kind.name}")
        assert read_committed(cluster) == committed, f"{when}, through {other.kind.name}"
        wait_until(lambda: stopped.broker_id not in cluster.registered(), START_S, "the end of a session")  # noqa: B023
        if empties:
            shutil.rmtree(stopped.log_dir)
        stopped.start()
        rounds.wait_registered()
        rounds.wait_full(START_S)


def swap_kinds(rounds: MixedTieredRounds, cluster: ReplicatedCluster) -> None:
    """Start each kind's program on the other's logs."""
    for broker in cluster.brokers:
        broker.stop()
    wait_until(lambda: not cluster.registered(), START_S, "the end of all sessions")
    for broker in cluster.brokers:
        broker.kind = APACHE_KAFKA if broker.kind is OURS else OURS
        broker.start()
    rounds.wait_registered()
    rounds.wait_full(START_S)


def copies_by_kind(cluster: ReplicatedCluster) -> Counter[str]:
    """The number of segments that each kind began to copy, according to the broker ids in ``__remote_log_metadata``."""
    records = [
        value
        for partition in range(METADATA_PARTITIONS)
        for value in values(of_kind(cluster, OURS).log(METADATA_TOPIC, partition)).values()
    ]
    decoded = [(decode_remote_log_record(value), value) for value in records]
    return Counter(
        broker.kind.name
        for record, value in decoded
        for broker in cluster.brokers
        if isinstance(record, RemoteLogSegmentMetadata) and encode_remote_log_record(record, broker.broker_id) == value
    )


@pytest.mark.weekly
def test_both_kinds_share_a_tier(peer_tools: None, tmp_path: Path) -> None:
    with cluster_of_both(tmp_path) as cluster:
        rounds = MixedTieredRounds(cluster, 0)
        try:
            committed = write_transactions(cluster)
            for action, kind in ((STOP, OURS), (KILL, APACHE_KAFKA), (STOP, APACHE_KAFKA), (KILL, OURS)):
                hand_over(rounds, cluster, action, kind)
            rounds.stop_writing()
            copies = copies_by_kind(cluster)
            read_through_each(rounds, cluster, committed, "after handovers")
            swap_kinds(rounds, cluster)
            read_through_each(rounds, cluster, committed, "after each kind started on the other's logs", empties=True)
            found = rounds.judge()
        finally:
            rounds.close()
        print(rounds.story(), copies, sep="\n")
        assert not found, "\n".join(found)
        assert all(copies[kind.name] > 10 for kind in KINDS), copies


@pytest.mark.soak
def test_nothing_acknowledged_is_lost_whatever_happens(
    peer_tools: None, tmp_path: Path, pytestconfig: pytest.Config, process_campaign_seed: int
) -> None:
    play_campaign(
        lambda cluster: MixedTieredRounds(cluster, process_campaign_seed),
        min(ROUNDS, pytestconfig.getoption("rounds")),
        cluster_of_both(tmp_path),
    )
