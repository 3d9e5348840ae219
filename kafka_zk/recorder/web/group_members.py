"""The ZooKeeper group of a consumer id. Pure."""

from collections.abc import Collection, Iterable

from kafka_zk.registry.znodes.consumers import CONSUMERS


def zookeeper_groups(paths: Iterable[str]) -> frozenset[str]:
    """The groups among the paths of all znodes."""
    return frozenset(path.split("/")[2] for path in paths if path.startswith(f"{CONSUMERS}/"))


def group_of_member(member: str, groups: Collection[str]) -> str:
    """The group with the longest name that is a prefix of the consumer id; "" if there is no such group."""
    name = member
    while name := name.rpartition("_")[0]:
        if name in groups:
            return name
    return ""
