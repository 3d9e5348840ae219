"""A slice of the campaign: a few cuts of each shape on each file system. ``make test-power`` plays hundreds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from tests.integration.processes import ENVIRON
from tests.power.__main__ import main
from tests.power.campaign import SHAPES, Row, play, table
from tests.power.disks import FILESYSTEMS, Machine, loop_devices, mount_points, pool, sweep, unavailable
from tests.power.judges import HOLE, Violation
from tests.power.servers import OURS, zookeeper
from tests.power.verdict import Verdict

CUTS = {"single": 4, "minority": 2}


@pytest.fixture(params=FILESYSTEMS)
def filesystem(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if reason := unavailable(name):
        pytest.skip(reason)
    return name


@pytest.mark.power
@pytest.mark.parametrize("shape", CUTS)
def test_nothing_is_lost_that_must_be_there(filesystem: str, shape: str, pytestconfig: pytest.Config) -> None:
    seed: int = pytestconfig.getoption("seed")
    verdicts = list(play(filesystem, SHAPES[shape], OURS, seed, CUTS[shape]))
    bad = [f"{verdict.name}: {violation}" for verdict in verdicts if verdict.is_bad for violation in verdict.violations]
    assert not bad, "\n".join(bad)
    assert len(verdicts) == CUTS[shape]


@pytest.mark.power
def test_a_zookeeper_that_has_just_started_starts_again(filesystem: str) -> None:
    """btrfs kept the transaction log, but not the snapshot of the empty tree, so that ZooKeeper did not start."""
    with pool() as disks:
        machine = Machine(disks, "machine", filesystem)
        machine.mount()
        folder = machine.volumes[0] / "zookeeper"
        with zookeeper(folder, 0) as server:
            _names(server, new="/confirmed")
            image = machine.cut("cut")
            server.kill()
        machine.unmount()
        machine.mount(image)
        with zookeeper(folder, 0) as server:
            assert "confirmed" in _names(server)
            server.kill()
        machine.unmount()


def _names(server: EmbeddedZooKeeper, new: str | None = None) -> list[str]:
    client = KazooClient(server.connect_string)
    client.start()
    try:
        if new:
            client.create(new)
        return list(client.get_children("/"))
    finally:
        client.stop()
        client.close()


@pytest.mark.power
def test_a_clone_has_what_was_synced_and_not_what_was_not(filesystem: str) -> None:
    with pool() as disks:
        machine = Machine(disks, "machine", filesystem)
        machine.mount()
        for volume in machine.volumes:
            with (volume / "synced").open("wb") as file:
                file.write(b"synced")
                file.flush()
                os.fsync(file.fileno())
            (volume / "written").write_bytes(b"x" * 100_000)
        image = machine.cut("cut")
        machine.unmount()
        machine.mount(image)
        for volume in machine.volumes:
            assert (volume / "synced").read_bytes() == b"synced"
            written = volume / "written"
            assert not written.exists() or written.read_bytes() != b"x" * 100_000
        machine.unmount()


@pytest.mark.power
def test_what_a_killed_campaign_left_is_removed(filesystem: str, tmp_path: Path) -> None:
    program = (
        "import os, pathlib, sys; from tests.power.disks import Machine, pool\n"
        "with pool(pathlib.Path(sys.argv[1])) as disks:\n"
        "    Machine(disks, 'machine', sys.argv[2]).mount(); os.kill(os.getpid(), 9)\n"
    )
    root = tmp_path / "root"
    subprocess.run([sys.executable, "-c", program, str(root), filesystem], env=ENVIRON, check=False)
    assert mount_points(root)
    with pool(root) as disks:
        assert list(root.iterdir()) == [disks.folder]
        sweep(root)
        assert mount_points(disks.folder), "it is in use"
    assert not list(root.iterdir()) and not mount_points(root) and not loop_devices(root)


def test_the_table_counts_cuts_by_judge() -> None:
    row = Row("ext4", "single", OURS)
    row.add(Verdict("one", 2.0, []))
    row.add(Verdict("two", 4.0, [Violation(HOLE, "t", "a"), Violation(HOLE, "u", "b")]))
    head, line = (each.split() for each in table([row]).splitlines())
    shown = dict(zip(head, line, strict=False))
    assert (shown["snapshots"], shown["violated"], shown[HOLE], shown["lost"]) == ("2", "1", "1", "0")


def test_it_says_why_it_cannot_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    unavailable.cache_clear()
    monkeypatch.setattr(sys, "argv", ["power", "--filesystems", "xfs"])
    assert main() == 0
    assert capsys.readouterr().out == "xfs is skipped: power cuts need root: they mount file systems in loop devices\n"
    monkeypatch.undo()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "mkfs.btrfs" else tool)
    unavailable.cache_clear()
    assert unavailable("btrfs") == (
        "power cuts on btrfs need mkfs.btrfs: install xfsprogs, e2fsprogs, btrfs-progs and util-linux"
    )
    unavailable.cache_clear()
