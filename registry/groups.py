"""The groups under ``/consumers``: lists them, deletes dead ones.

Source: AdminUtils.deleteConsumerGroupInZK and deleteConsumerGroupInfoForTopicInZK @0.10.2.
"""

from collections.abc import Iterable

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.client import RegistryClient, ZnodeStat
from kafka_zk.registry.client.errors import GroupNotEmpty, NoAuth, NoNode, NotEmpty, RegistryError
from kafka_zk.registry.client.pipeline import children_of, found, outcomes, readable
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.registry.znodes import group_topic


async def groups(client: RegistryClient) -> dict[str, int | None]:
    """All groups, sorted, with the number of live members (0: only offsets; None: an ACL hides them)."""
    names = await children_of(client, znodes.CONSUMERS)
    listed = await readable(client.children(znodes.ids_path(name)) for name in names)
    return {name: _count(answer) for name, answer in zip(names, listed, strict=True)}


def _count(answer: tuple[list[str], ZnodeStat] | NoAuth | None) -> int | None:
    if isinstance(answer, NoAuth):
        return None
    return 0 if answer is None else len(answer[0])


async def check_empty(client: RegistryClient, group: str) -> None:
    """Raise GroupNotEmpty if the group has live members, NoNode if there is no such group.

    Invalid names such as ``a/offsets`` or ``''`` raise NoNode, because they do not name a group's znode.
    """
    if not znodes.is_znode_name(group) or await client.exists(znodes.group_path(group)) is None:
        raise NoNode(f"there is no group {group} in ZooKeeper")
    listed = await found([client.children(znodes.ids_path(group))])
    if listed[0] is not None and listed[0][0]:
        raise GroupNotEmpty(group, listed[0][0])


async def delete_group(client: RegistryClient, group: str) -> None:
    """Delete a group without live members, with all its offsets.

    ``ids`` is deleted first, which fails if the group has a member. Members that join later find no offsets.
    Raises: GroupNotEmpty, NoNode.
    """
    ids = znodes.ids_path(group)
    while True:
        await check_empty(client, group)
        try:
            await client.delete(ids)
        except NotEmpty:
            continue  # a member joined
        except NoNode:
            break
    path = znodes.group_path(group)
    names, _ = await client.children(path)
    for child in [f"{path}/{name}" for name in names]:
        if child != ids:
            await delete_tree(client, child)
    for outcome in await outcomes([client.delete(path)]):
        if isinstance(outcome, RegistryError) and not isinstance(outcome, NoNode | NotEmpty):
            raise outcome


async def delete_group_topic(client: RegistryClient, group: str, topic: str) -> None:
    """Delete everything that a group without live members stores about one topic. Raises: GroupNotEmpty, NoNode."""
    await check_empty(client, group)
    if not znodes.is_znode_name(topic):
        raise NoNode(f"group {group} stores nothing about {topic!r}, which is not a valid topic name")
    for path in (
        znodes.owners_path(group, topic),
        znodes.offsets_path(group, topic),
        group_topic.group_topic_path(group, topic),
    ):
        await delete_tree(client, path)


async def delete_group_offsets(client: RegistryClient, group: str, tps: Iterable[TopicPartition]) -> None:
    """Delete some offsets of a group without live members. Raises: GroupNotEmpty, NoNode."""
    await check_empty(client, group)
    await found(client.delete(znodes.offset_path(group, *tp)) for tp in tps)


async def delete_tree(client: RegistryClient, root: str) -> None:
    """Delete a tree level by level. Znodes that other clients have already deleted are skipped.

    Raises: NotEmpty if children are added.
    """
    levels = [[root]]
    while levels[-1]:
        listed = await found(client.children(path) for path in levels[-1])
        levels.append(
            [
                f"{path}/{name}"
                for path, answer in zip(levels[-1], listed, strict=True)
                for name in (answer[0] if answer is not None else ())
            ]
        )
    for level in reversed(levels):
        for outcome in await outcomes(client.delete(path) for path in level):
            if isinstance(outcome, RegistryError) and not isinstance(outcome, NoNode):
                raise outcome
