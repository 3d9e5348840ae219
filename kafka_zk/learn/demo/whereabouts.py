"""The places of the demo's records: in ZooKeeper, in the cluster, on disk."""

from pathlib import Path
from typing import Any, NamedTuple

from kafka_zk.registry import znode_tree
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.znode_tree import Znode

SHOWN = ("/brokers", "/cluster", "/config/topics", "/controller", "/controller_epoch")


class PartitionFiles(NamedTuple):
    partition: int
    leader: int
    records: int
    segments: int
    size_bytes: int
    folder: Path


def shown_znodes(client: KazooBlockingClient) -> list[Znode]:
    """The brokers' and topics' parts of the tree."""
    return [node for root in SHOWN for node in run_blocking(znode_tree.read_tree(client, root))]


def partition_files(
    data_dir: Path, topic: str, leaders: dict[int, int], records: dict[int, int]
) -> list[PartitionFiles]:
    found = []
    for partition, leader in sorted(leaders.items()):
        folder = data_dir / f"broker-{leader}" / "data" / f"{topic}-{partition}"
        sizes = [path.stat().st_size for path in folder.glob("*.log")]
        found.append(PartitionFiles(partition, leader, records[partition], len(sizes), sum(sizes), folder))
    return found


def as_document(files: PartitionFiles) -> dict[str, Any]:
    return {**files._asdict(), "folder": str(files.folder)}
