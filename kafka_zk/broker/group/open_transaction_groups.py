"""In which groups of this broker a producer has committed offsets, until its transaction ends.

Pure. Source: GroupMetadataManager.scala@3.9 (openGroupsForProducer).
"""

from collections.abc import Collection


class OpenTransactionGroups:
    """By partition of ``__consumer_offsets``, whose log gets the marker."""

    def __init__(self) -> None:
        self._groups: dict[int, dict[int, set[str]]] = {}  # by partition, then by producer id

    def add(self, partition: int, group_id: str, producer_ids: Collection[int]) -> None:
        """These producers commit offsets of the group."""
        for producer_id in producer_ids:
            self._groups.setdefault(partition, {}).setdefault(producer_id, set()).add(group_id)

    def of(self, partition: int, producer_id: int) -> list[str]:
        """The groups in which the producer has committed offsets, sorted."""
        return sorted(self._groups.get(partition, {}).get(producer_id, ()))

    def remove(self, partition: int, group_id: str, producer_id: int) -> None:
        """Nothing of the producer waits for a marker in the group."""
        producers = self._groups.get(partition, {})
        groups = producers.get(producer_id, set())
        groups.discard(group_id)
        if not groups:
            producers.pop(producer_id, None)
        if not producers:
            self._groups.pop(partition, None)

    def unload(self, partition: int) -> None:
        """The partition is led by another broker now."""
        self._groups.pop(partition, None)
