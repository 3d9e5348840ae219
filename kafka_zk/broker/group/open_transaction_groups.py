"""The groups in which each producer has uncommitted offsets. Pure.

Source: GroupMetadataManager.scala@3.9 (openGroupsForProducer).
"""

from collections.abc import Collection


class OpenTransactionGroups:
    """Sets of group ids by partition of ``__consumer_offsets``, whose log gets the marker, and by producer id. No set
    is empty."""

    def __init__(self) -> None:
        self._groups: dict[int, dict[int, set[str]]] = {}

    def add(self, partition: int, group_id: str, producer_ids: Collection[int]) -> None:
        """Record that the producers commit offsets of the group in open transactions."""
        for producer_id in producer_ids:
            self._groups.setdefault(partition, {}).setdefault(producer_id, set()).add(group_id)

    def of(self, partition: int, producer_id: int) -> list[str]:
        """The groups with open transactions of the producer, sorted."""
        return sorted(self._groups.get(partition, {}).get(producer_id, ()))

    def remove(self, partition: int, group_id: str, producer_id: int) -> None:
        """Record that the producer has no open transaction in the group."""
        producers = self._groups.get(partition, {})
        groups = producers.get(producer_id, set())
        groups.discard(group_id)
        if not groups:
            producers.pop(producer_id, None)
        if not producers:
            self._groups.pop(partition, None)

    def unload(self, partition: int) -> None:
        """Forget a partition that another broker now leads."""
        self._groups.pop(partition, None)
