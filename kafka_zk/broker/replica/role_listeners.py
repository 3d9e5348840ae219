"""Listeners for this broker's roles: fetchers and coordinators."""

from collections.abc import Callable

from twisted.logger import Logger

from kafka_zk.broker.replica.partition import Partition

_log = Logger()


class RoleListeners(list[Callable[[Partition], None]]):
    """Called in order for every replica whose role or leader epoch changed, or whose topic received an id."""

    def tell(self, partition: Partition) -> None:
        """A listener's error is logged and does not affect the others."""
        for role_changed in self:
            try:
                role_changed(partition)
            except Exception:
                _log.failure("a listener failed on the new role of {tp}", tp=partition.tp)
