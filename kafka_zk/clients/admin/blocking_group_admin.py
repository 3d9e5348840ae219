"""Administration of the brokers' groups for threads: ``GroupAdmin`` run in the process's reactor thread."""

from collections.abc import Collection, Iterable, Mapping

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.group_admin import CommittedOffset, GroupAdmin, GroupDescription, ListedGroup
from kafka_zk.clients.connection.reactor_thread import ReactorThread


class BlockingGroupAdmin:
    """Methods promise and raise what ``GroupAdmin``'s do; ``BlockingAdmin`` has one."""

    def __init__(self, thread: ReactorThread, admin: GroupAdmin) -> None:
        self._thread = thread
        self._admin = admin

    def list_groups(self) -> dict[str, ListedGroup]:
        """All groups of all live brokers, sorted."""
        return self._thread.call(self._admin.list_groups)

    def describe_groups(self, groups: Iterable[str]) -> dict[str, GroupDescription]:
        """State and members of each group."""
        return self._thread.call(self._admin.describe_groups, groups)

    def committed(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """All offsets of a group, sorted."""
        return self._thread.call(self._admin.committed, group)

    def committed_by(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """The same for many groups, in their order."""
        return self._thread.call(self._admin.committed_by, groups)

    def stable_offsets(
        self, group: str, tps: Collection[TopicPartition], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int]:
        """The same of some partitions, -1 where nothing; waits while a transaction commits other offsets of them.

        Raises: KafkaTimeoutError.
        """
        return self._thread.call(self._admin.stable_offsets, group, tps, timeout_s=timeout_s)

    def commit(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Store offsets for a group without members."""
        self._thread.call(self._admin.commit, group, offsets)

    def delete_groups(self, groups: Iterable[str]) -> None:
        """Remove groups without members, with what they have committed."""
        self._thread.call(self._admin.delete_groups, groups)

    def delete_offsets(self, group: str, tps: Collection[TopicPartition]) -> None:
        """Forget what a group has committed for these partitions."""
        self._thread.call(self._admin.delete_offsets, group, tps)
