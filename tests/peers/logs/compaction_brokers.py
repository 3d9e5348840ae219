"""Brokers, Apache Kafka's and ours, that find compacted partitions in their log directory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from kazoo.client import KazooClient

from kafka_zk.storage.files.checkpoints import format_checkpoint, read_offsets
from tests.peers import targets
from tests.peers.logs.compaction_folders import Folder
from tests.peers.targets import Target


def _register(zookeeper: str, folders: Sequence[Folder]) -> None:
    """Write the topics' znodes as a creation does, so that a broker loads the folders with their configs."""
    client = KazooClient(zookeeper)
    client.start()
    try:
        for folder in folders:
            config = {"version": 1, "config": folder.config}
            assignment = {"version": 1, "partitions": {"0": [0]}}
            client.create(f"/config/topics/{folder.tp.topic}", json.dumps(config).encode(), makepath=True)
            client.create(f"/brokers/topics/{folder.tp.topic}", json.dumps(assignment).encode(), makepath=True)
    finally:
        client.stop()
        client.close()


def start_on(
    name: str,
    zookeeper: str,
    folder: Path,
    chroot: str,
    held: Sequence[Folder],
    overrides: Mapping[str, str],
    cores: str | None = None,
) -> Target:
    """Start a broker on the folders in ``folder / "broker-0" / "logs"``."""
    client = KazooClient(zookeeper)
    client.start()
    client.ensure_path(f"/{chroot}")
    client.stop()
    client.close()
    _register(f"{zookeeper}/{chroot}", held)
    rows = [(each.tp.topic, 0, each.cleaned_offset) for each in held if each.cleaned_offset is not None]
    checkpoint = log_dir_of(folder) / "cleaner-offset-checkpoint"
    if not checkpoint.exists():
        checkpoint.write_bytes(format_checkpoint(rows))
    return targets.start(name, zookeeper, folder, overrides=overrides, cores=cores, chroot=chroot)


def log_dir_of(folder: Path) -> Path:
    return folder / "broker-0" / "logs"


def is_clean(log_dir: Path, folders: Sequence[Folder]) -> bool:
    """True if the checkpoint shows that all folders are clean, and no file waits for its removal."""
    offsets = read_offsets(str(log_dir / "cleaner-offset-checkpoint"))
    return all(offsets.get(each.tp, -1) >= each.active_offset for each in folders) and not [
        *log_dir.glob("*/*.deleted"),
        *log_dir.glob("*/*.swap"),
    ]
