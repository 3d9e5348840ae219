"""Brokers of an earlier commit are replaced by brokers of this tree one by one, and back, while producers and a group
continue.

``--from-commit COMMIT`` names the earlier commit; with the default HEAD, only uncommitted changes are new.
"""

import os
import subprocess
import sys
import tarfile
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest

from tests.peers.clusters.mixed_cluster import members, not_read
from tests.peers.processes import wait_until
from tests.soak.replicated_cluster import OURS, SESSION_TIMEOUT_S, Kind, ReplicatedCluster
from tests.soak.replication_rounds import KILL, TOPIC, Fault, ReplicationRounds

pytestmark = pytest.mark.soak

_ROOT = Path(__file__).parents[2]
_READ_S = 90


def _earlier(commit: str, folder: Path) -> Kind:
    """Unpack the tree of a commit of this repository. Fails if there is no such commit here."""
    made = subprocess.run(["git", "-C", str(_ROOT), "archive", commit], capture_output=True, check=False)
    assert made.returncode == 0, made.stderr.decode()
    with tarfile.open(fileobj=BytesIO(made.stdout)) as tree:
        tree.extractall(folder, filter="fully_trusted")
    return Kind(commit, partial(_command, folder), restarts_at_once=True)


def _command(tree: Path, properties: Path) -> list[str]:
    """``-P`` keeps the tests' working directory from preceding the tree in ``sys.path``."""
    return ["env", f"PYTHONPATH={tree}", sys.executable, "-P", "-m", "kafka_zk", "broker", str(properties)]


def _where(tree: Path) -> str:
    """The place where a program that is started like this finds the package."""
    *front, _, _, _ = _command(tree, tree)
    command = [*front[: front.index("-m")], "-c", "import kafka_zk; print(kafka_zk.__file__)"]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=_ROOT).stdout


def _exchange(cluster: ReplicatedCluster, rounds: ReplicationRounds, kind: Kind) -> None:
    """Each broker stops cleanly and starts as another program; half-way the controller dies."""
    for broker in list(cluster.brokers):
        broker.stop()
        broker.kind = kind
        broker.start()
        rounds.wait_registered()
        rounds.wait_full(_READ_S)
        rounds.wait_acknowledged(100)
        victim = next(each for each in cluster.brokers if each.broker_id == cluster.controller())
        rounds.play([Fault(KILL, victim, victim, cluster, SESSION_TIMEOUT_S)])


def test_brokers_are_upgraded_and_go_back_under_load(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    commit = pytestconfig.getoption("from_commit")
    tree = tmp_path / "earlier"
    earlier = _earlier(commit, tree)
    assert _where(tree).startswith(os.fspath(tree))
    with ReplicatedCluster(tmp_path, [earlier] * 3) as cluster:
        rounds = ReplicationRounds(cluster, 0)
        group = members(cluster.bootstrap, TOPIC)
        try:
            for member in group:
                member.start()
            rounds.clients += group
            for kind in (OURS, earlier):
                _exchange(cluster, rounds, kind)
            found = rounds.judge()
            wait_until(lambda: not not_read(rounds, group), _READ_S, "the group to read everything")
        finally:
            rounds.close()
    gaps_s = {sender.name: round(sender.longest_gap.seconds, 1) for sender in rounds.senders if sender.longest_gap}
    print(rounds.story(), f"longest gaps: {gaps_s}", sep="\n")
    assert not found, "\n".join(found)
