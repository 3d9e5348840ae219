"""Those who follow which roles this broker has: fetchers and coordinators."""

from collections.abc import Callable

from twisted.logger import Logger

from kafka_zk.broker.replica.partition import Partition

_log = Logger()


class RoleListeners(list[Callable[[Partition], None]]):
    """Called, in this order, for every replica whose role or leader epoch is another one now, or whose topic has got an
    id."""

    def tell(self, partition: Partition) -> None:
        """A listener that raises does not keep the event from the others, nor from other partitions' listeners."""
        for role_changed in self:
            try:
                role_changed(partition)
            except Exception:
                _log.failure("a listener failed on the new role of {tp}", tp=partition.tp)
