"""``kafka-zk migration`` on a cluster of ours, with a real ZooKeeper: exit codes and files. The commands write nothing.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.recorder.zookeeper_files.transaction_log import SessionClosed, SessionCreated, TransactionLogFollower
from kafka_zk.testing.zookeeper import Chroot
from tests.integration.processes import kafka_zk, kafka_zk_json

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

NO_BROKER = "127.0.0.1:1"


@pytest.fixture(scope="module")
def cluster(zookeeper_server: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """A cluster for this module only, because other tests leave groups in the shared one whose offsets are a trap."""
    zookeeper = Chroot(zookeeper_server, "/migration").connect_string
    with EmbeddedCluster(tmp_path_factory.mktemp("migration"), broker_count=1, zookeeper=zookeeper) as made:
        yield made


def where(cluster: EmbeddedCluster) -> tuple[str, ...]:
    return "--zookeeper", cluster.zookeeper_connect, "--bootstrap-server", cluster.bootstrap


def check(*arguments: str | Path) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the findings by rule."""
    done = kafka_zk("migration", "check", *arguments, "--json")
    return done.returncode, {each["rule"]: each for each in json.loads(done.stdout)}


def test_a_clean_cluster_is_not_changed(cluster: EmbeddedCluster, zookeeper_server: EmbeddedZooKeeper) -> None:
    """There are no controllers yet, so only rules that need files are not checked."""
    log = TransactionLogFollower(zookeeper_server.data_dir / "data")
    log.read()
    code, findings = check(*where(cluster))
    status = kafka_zk_json("migration", "status", *where(cluster))
    written = log.read()

    assert code == 2
    assert [each["seen"] for each in findings.values() if each["verdict"] == "trap"] == []
    assert findings["protocol-versions"]["verdict"] == findings["protected-znodes"]["verdict"] == "clean"
    assert {name for name, each in findings.items() if each["verdict"] == "not checked"} == {
        "kraft-brokers-too-early", "meta-properties",
    }  # fmt: skip
    assert status["phase"] == "none" and status["continue"]["safe"] is None and status["roll_back"]["safe"]
    assert set(status["brokers"].values()) == {"ZooKeeper"}
    assert len(status["brokers"]) == len(cluster.brokers)

    sessions = {each.session for each in written if any(isinstance(op, SessionCreated) for op in each.operations)}
    ours = [each.operations for each in written if each.session in sessions]
    assert len(sessions) >= 2
    assert all(isinstance(op, SessionCreated | SessionClosed) for operations in ours for op in operations)
    assert all(ours), "an ACL was changed, or a request failed"


def test_with_all_files_a_clean_cluster_is_clean(cluster: EmbeddedCluster) -> None:
    files = [
        argument for broker in cluster.brokers
        for argument in ("--server-properties", broker.properties_file, "--log-dirs", broker.log_dir)
    ]  # fmt: skip
    code, findings = check(*where(cluster), *files)
    good = "clean", "does not apply"
    assert [(name, each["verdict"]) for name, each in findings.items() if each["verdict"] not in good] == []
    assert code == 0


def test_a_trap_in_a_file(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    broker_id = min(broker.broker_id for broker in cluster.brokers)
    file = tmp_path / "controller.properties"
    file.write_text(f"node.id={broker_id}\ncontroller.quorum.voters={broker_id}@{NO_BROKER}\n")
    code, findings = check(*where(cluster), "--controller-properties", file)
    traps = {name for name, each in findings.items() if each["verdict"] == "trap"}
    assert (code, traps) == (1, {"controller-ids", "controllers-without-flag"})
    shown = kafka_zk("migration", "check", *where(cluster), "--controller-properties", file)
    assert shown.returncode == 1 and "Traceback" not in shown.stderr
    assert f"TRAP controller-ids (seen on 3.9.1)\n  {broker_id} is the id of a broker and" in shown.stdout
    assert "cannot be asked" in shown.stdout


def test_log_dirs(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    for folder in (good, bad):
        folder.mkdir()
    (good / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=AbCdEfGhIjKlMnOpQrStUv\n")
    _, findings = check(*where(cluster), "--log-dirs", good, "--log-dirs", bad)
    assert findings["meta-properties"]["seen"] == [f"the folder {bad} has no meta.properties"]
    of_another = f"the folder {good} belongs to cluster AbCdEfGhIjKlMnOpQrStUv"
    assert findings["controller-cluster-ids"]["seen"][0].startswith(of_another)


def test_only_zookeeper_or_only_brokers(cluster: EmbeddedCluster) -> None:
    code, by_znodes = check("--zookeeper", cluster.zookeeper_connect)
    assert code == 2 and by_znodes["topic-deletions"]["verdict"] == "clean"
    assert by_znodes["protocol-versions"]["not_checked"][0]["remedy"] == "--bootstrap-server"
    code, by_brokers = check("--bootstrap-server", cluster.bootstrap)
    assert code == 2 and by_brokers["protocol-versions"]["verdict"] == "clean"
    assert by_brokers["topic-deletions"]["not_checked"][0]["remedy"] == "--zookeeper"


def test_brokers_that_do_not_respond_are_not_clean(cluster: EmbeddedCluster) -> None:
    code, findings = check("--zookeeper", cluster.zookeeper_connect, "--bootstrap-server", NO_BROKER)
    assert code == 2 and findings["broker-releases"]["verdict"] == "not checked"
    assert NO_BROKER in findings["broker-releases"]["not_checked"][0]["reason"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("check",), "give --zookeeper, --bootstrap-server or both"),
        (("status", "--bootstrap-server", "nonsense"), "nonsense"),
        (("check", "--bootstrap-server", NO_BROKER, "--server-properties", "/no/such/file"), "/no/such/file"),
    ],
    ids=["nothing to read", "no address", "no file"],
)
def test_bad_input_is_one_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    done = kafka_zk("migration", *arguments)
    assert done.returncode == 2 and sentence in done.stderr and "Traceback" not in done.stderr
