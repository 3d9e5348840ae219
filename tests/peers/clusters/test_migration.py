"""A cluster of three Apache Kafka brokers becomes one of ours under load, broker by broker, and then Kafka's again.

The steps are those of docs/how-to/migrate.md: a broker joins, the replicas of another move to it, and that one leaves.
Clients are neither restarted nor configured.
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.peers.clusters.mixed_cluster import (
    APACHE_KAFKA,
    GroupMember,
    described_by_kafka,
    described_by_us,
    members,
    mixed_properties,
    not_read,
    reassign,
    reassign_by_kafka,
)
from tests.peers.clusters.mixed_rounds import JvmRounds
from tests.peers.processes import wait_until
from tests.soak.replicated_cluster import OURS, Broker, Kind, ReplicatedCluster
from tests.soak.replication_rounds import TOPIC, ReplicationRounds

pytestmark = pytest.mark.soak

_OFFSETS_TOPIC = "__consumer_offsets"
_PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "migrate.md").read_text()
_DOCUMENTED = re.findall(r"python -c '\n(.*?)' > moves.json", _PAGE, re.DOTALL)[0]
_MOVE_S = 180
_READ_S = 90
_GAP_S = 30.0
"""Maximum gap on a busy machine; an election takes much less."""
_THROTTLE = ("--throttle", "20000000")


class Migration:
    """Replaces brokers one by one."""

    def __init__(self, cluster: ReplicatedCluster, rounds: ReplicationRounds) -> None:
        self._cluster = cluster
        self._rounds = rounds
        self._count = 0

    def to(self, kind: Kind) -> None:
        """Replace every broker of another kind by a new one of this kind."""
        for old in [each for each in self._cluster.brokers if each.kind is not kind]:
            new = self._cluster.add(kind)
            self._replace(old, new)
            self._rounds.wait_acknowledged(100)
            self._cluster.remove(old)
            self._rounds.wait_full(_MOVE_S)
            self._rounds.wait_acknowledged(100)

    def _replace(self, old: Broker, new: Broker) -> None:
        file = self._moves(old.broker_id, new.broker_id)
        bootstrap = f"127.0.0.1:{new.port}"
        self._count += 1
        if self._count % 2:  # the tools of both kinds take turns
            reassign_by_kafka(bootstrap, "--execute", file, *_THROTTLE)
            wait_until(self._are_moved, _MOVE_S, "the moves to end", interval_s=0.5)
            said = reassign_by_kafka(bootstrap, "--verify", file)  # removes the throttle, too
            assert "still in progress" not in said and "no longer reassigning" not in said.lower(), said
        else:
            wait_until(lambda: reassign(bootstrap, "--execute", file), _MOVE_S, "the moves to begin", interval_s=1)
            wait_until(self._are_moved, _MOVE_S, "the moves to end", interval_s=0.5)
            assert reassign(bootstrap, "--verify", file)

    def _moves(self, old: int, new: int) -> Path:
        """The file that the commands of docs/how-to/migrate.md write."""
        code = _DOCUMENTED.replace("old, new = 0, 3", f"old, new = {old}, {new}")
        described = [sys.executable, "-m", "kafka_zk", "topics", "describe", "--json"]
        described += ["--bootstrap-server", self._cluster.bootstrap]
        topics = subprocess.run(described, capture_output=True, check=True, timeout=_READ_S).stdout
        moves = subprocess.run([sys.executable, "-c", code], input=topics, capture_output=True, check=True).stdout
        assert b"__consumer_offsets" in moves
        file = self._cluster.folder / f"replace-{old}-by-{new}.json"
        file.write_bytes(moves)
        return file

    def _are_moved(self) -> bool:
        return not any(self._cluster.moving(topic) for topic in (TOPIC, _OFFSETS_TOPIC))


def _is_only(cluster: ReplicatedCluster, kind: Kind) -> bool:
    """True if only brokers of this kind are left, and the tools of both kinds report the same replicas."""
    where = cluster.bootstrap
    told = described_by_kafka(where, TOPIC)
    ids = set(cluster.ids)
    return (
        {each.kind for each in cluster.brokers} == {kind}
        and cluster.registered() == ids
        and told == described_by_us(where, TOPIC)
        and all(set(each.replicas) == each.isr == ids for each in told.values())
    )


def _wait_read(rounds: ReplicationRounds, group: Sequence[GroupMember]) -> None:
    wait_until(lambda: not not_read(rounds, group), _READ_S, "the group to read everything")


def test_a_cluster_becomes_ours_and_kafkas_again(peer_tools: None, tmp_path: Path) -> None:
    with ReplicatedCluster(tmp_path, [APACHE_KAFKA] * 3, mixed_properties("3.9")) as cluster:
        rounds = JvmRounds(cluster, 0)
        group = members(cluster.bootstrap, TOPIC)
        try:
            for member in group:
                member.start()
            rounds.clients += group
            wait_until(lambda: any(member.values for member in group), _READ_S, "the group to read")
            migration = Migration(cluster, rounds)
            for kind in (OURS, APACHE_KAFKA):
                migration.to(kind)
                wait_until(lambda kind=kind: _is_only(cluster, kind), _READ_S, f"only {kind.name}")  # type: ignore[misc]
            found = rounds.judge()
            _wait_read(rounds, group)
        finally:
            rounds.close()
    gaps_s = {sender.name: round(sender.longest_gap.seconds, 1) for sender in rounds.senders if sender.longest_gap}
    print(rounds.story(), f"longest gaps: {gaps_s}", sep="\n")
    assert not found, "\n".join(found)
    assert max(gaps_s.values()) < _GAP_S, gaps_s
