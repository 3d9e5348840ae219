"""``kafka-zk migration rehearse``: which copies can be rehearsed, and what remains of the work folder."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafka_zk.cli.migration.rehearse import rehearse
from kafka_zk.clients.connection.errors import KafkaTimeoutError
from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.migration.finding import Finding
from kafka_zk.migration.phase import Phase
from kafka_zk.migration.rehearsal import walk
from kafka_zk.migration.rehearsal.report import Run, Step
from kafka_zk.migration.rehearsal.site import Equipment
from kafka_zk.migration.rules import RULES
from kafka_zk.recorder.zookeeper_files.last_state import read_last_state
from kafka_zk.recorder.zookeeper_files.snapshot import Znode
from kafka_zk.recorder.zookeeper_files.snapshot_writer import write_snapshot
from kafka_zk.registry.client.errors import SessionLost
from tests.kafka_zk.recorder.zookeeper_files.test_transaction_log import HEADER, record, text

ID = b'{"version":"1","id":"abc"}'
KRAFT = b'{"version":2,"brokerid":3001,"timestamp":"1","kraftControllerEpoch":2}'
LISTENERS = b'{"version":1,"config":{"listeners":"PLAINTEXT://b1:9092"}}'


def cluster(chroot: str, **more: bytes) -> dict[str, bytes]:
    paths = {"cluster/id": ID, "brokers/topics/orders": b'{"partitions":{"0":[1]}}', "config/brokers/1": LISTENERS}
    return {f"{chroot}/{path}": data for path, data in {**paths, **more}.items()}


class Walks:
    """Stands in for the walk: it examines the folder and the copy. ``step``: the step of each run."""

    def __init__(self) -> None:
        self.seen: list[Phase | None] = []
        self.copy: dict[str, bytes | None] = {}
        self.step = Step("waiting", 1.5)
        self.findings: list[Finding] = []
        self.error: Exception | None = None
        self.good_runs = 0

    def rehearse(self, folder: Path, equipment: Equipment, back_from: Phase | None) -> tuple[Run, list[Finding]]:
        self.equipment = equipment
        assert folder.parent.stat().st_mode & 0o777 == 0o700
        equipment.copy.write(folder)
        state = read_last_state(folder)
        assert state is not None
        self.copy = {path: znode.data for path, znode in state.znodes.items()}
        self.seen.append(back_from)
        if self.error is not None and len(self.seen) > self.good_runs:
            raise self.error
        return Run(walk.run_name(back_from), (self.step,)), self.findings


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> Walks:
    found = Walks()
    monkeypatch.setattr(walk, "rehearse", found.rehearse)
    monkeypatch.setattr("kafka_zk.broker.process.signals.interrupt_at_the_end", lambda: None)
    return found


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The work folder, which must be empty after the test."""
    (tmp_path / "work").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "work"))
    yield tmp_path / "work"
    assert os.listdir(tmp_path / "work") == []


def run(tmp_path: Path, znodes: dict[str, bytes] | None, *options: str) -> Result:
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "kafka_2.13-3.9.1.jar").touch()
    if znodes is not None:
        write_snapshot(tmp_path / "zk", 9, {path: Znode(data, 0, 1, 1, 0, 0) for path, data in znodes.items()})
    else:
        (tmp_path / "zk" / "version-2").mkdir(parents=True)
    arguments = ["--snapshot", str(tmp_path / "zk" / "version-2"), "--kafka-dir", str(tmp_path / "kafka"), *options]
    return CliRunner().invoke(rehearse, arguments)


def test_all_runs_by_default(walks: Walks, tmp_path: Path) -> None:
    done = run(tmp_path, {**cluster("/k"), "/other": b"x"})
    assert done.exit_code == 0, done.output
    assert walks.seen == [None, Phase.WAITING, Phase.DUAL_WRITE, Phase.BROKERS_MOVED]
    assert walks.copy["/k/config/brokers/1"] == b'{"version":1,"config":{"listeners":"PLAINTEXT://127.0.0.1:1"}}'
    assert "/other" not in walks.copy
    assert "back from brokers moved  waiting  ok" in done.output
    assert "They do not test inter.broker.protocol.version" in done.output


def test_what_broke(walks: Walks, tmp_path: Path) -> None:
    walks.step = Step("copying", 2.0, problems=("the controller ended",), is_reached=False)
    walks.findings = [Finding(RULES[0], ("/migration exists",), ())]
    done = run(tmp_path, cluster(""), "--run", "forward")
    assert done.exit_code == 1 and walks.seen == [None]
    assert "BROKE forward, copying: the controller ended" in done.output
    assert f"TRAP {RULES[0].name}: /migration exists" in done.output


@pytest.mark.parametrize(
    "error", [ProcessFailed("ZooKeeper ended"), KafkaTimeoutError("no result after 30 s"), SessionLost("it is lost")]
)
def test_a_late_error_leaves_the_runs_before_it(error: Exception, walks: Walks, tmp_path: Path) -> None:
    walks.error, walks.good_runs = error, 1
    done = run(tmp_path, cluster(""))
    assert done.exit_code == 1 and len(walks.seen) == 4
    assert "forward                  waiting                ok" in done.output
    assert f"BROKE back from waiting, ZooKeeper on the copy: {error}" in done.output


def test_a_damaged_log_is_not_rehearsed(walks: Walks, tmp_path: Path) -> None:
    (tmp_path / "zk" / "version-2").mkdir(parents=True)
    (tmp_path / "zk" / "version-2" / "log.c").write_bytes(HEADER + record(12, 2, text("/a")))
    done = run(tmp_path, cluster(""))
    assert (done.exit_code, walks.seen) == (2, [])
    assert "the transactions from 0xa to 0xb are in no file" in " ".join(done.output.split())


def test_a_snapshot_without_a_log_is_old(walks: Walks, tmp_path: Path) -> None:
    done = run(tmp_path, cluster(""), "--run", "forward")
    assert done.exit_code == 0 and "the copy is as old as the snapshot" in " ".join(done.stderr.split())


def test_a_copy_that_cannot_be_removed_is_reported(
    walks: Walks, tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        done = run(tmp_path, cluster(""), "--run", "forward")
    (left,) = work.iterdir()
    assert f"{left} could not be removed: it contains credentials" in " ".join(done.stderr.split())
    shutil.rmtree(left)


def test_a_trap_alone_is_a_failure(walks: Walks, tmp_path: Path) -> None:
    walks.findings = [Finding(RULES[0], ("/migration exists",), ())]
    assert run(tmp_path, cluster(""), "--json").exit_code == 1


@pytest.mark.parametrize(
    ("znodes", "options", "message"),
    [
        (None, [], "has no complete snapshot of ZooKeeper"),
        ({"/a": b""}, [], "the copy has no Kafka cluster"),
        ({**cluster("/a"), **cluster("")}, [], "choose a cluster with --chroot: /, /a"),
        (cluster("/a"), ["--chroot", "/b"], "no Kafka cluster below /b in this copy: /a"),
        (cluster("/a", controller=KRAFT), [], "the KRaft controller 3001 already holds /controller"),
        ({"/brokers/topics": b""}, [], "could not be rehearsed: /cluster/id does not exist"),
    ],
)
def test_what_cannot_be_rehearsed(
    znodes: dict[str, bytes] | None, options: list[str], message: str, walks: Walks, tmp_path: Path
) -> None:
    done = run(tmp_path, znodes, *options)
    assert (done.exit_code, walks.seen) == (2, [])
    assert message in " ".join(done.output.split())


def test_real_brokers_have_the_settings_of_their_files(walks: Walks, tmp_path: Path) -> None:
    given = tmp_path / "settings"
    (given / "one").mkdir(parents=True)
    (given / "one" / "server.properties").write_text("broker.id=1\nsuper.users=User:admin\n")
    (given / "log4j.properties").write_text("log4j.rootLogger=INFO\n")
    done = run(tmp_path, cluster(""), "--run", "forward", "--brokers-from", str(given), "--controllers", "2")
    assert done.exit_code == 0, done.output
    assert walks.equipment.broker_settings == {1: {"broker.id": "1", "super.users": "User:admin"}}
    assert walks.equipment.controller_count == 2
    assert "The brokers were played by real brokers. They test" in done.output


def test_a_broker_without_a_file_is_not_replaced_by_a_stand_in(walks: Walks, tmp_path: Path) -> None:
    (tmp_path / "settings").mkdir()
    done = run(tmp_path, cluster(""), "--brokers-from", str(tmp_path / "settings"))
    assert (done.exit_code, walks.seen) == (2, [])
    assert "there is no server.properties of the brokers 1" in " ".join(done.output.split())


@pytest.mark.parametrize("chroot", ["/a", "a/"])
def test_one_of_several_clusters(chroot: str, walks: Walks, tmp_path: Path) -> None:
    assert run(tmp_path, {**cluster("/a"), **cluster("")}, "--chroot", chroot).exit_code == 0
    assert "/a/cluster/id" in walks.copy and "/cluster/id" not in walks.copy


@pytest.mark.parametrize(
    ("error", "code"), [(ProcessFailed("ZooKeeper ended"), 2), (KafkaTimeoutError("slow"), 2), (KeyboardInterrupt(), 1)]
)
def test_the_copy_is_removed_after_errors(error: Any, code: int, walks: Walks, tmp_path: Path) -> None:
    walks.error = error
    assert run(tmp_path, cluster("")).exit_code == code
