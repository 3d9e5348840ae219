"""Whether a consumer may act as a member of its group: asked before records are handed out and offsets committed.

``may_act`` may be asked in any thread; everything else happens on the reactor's.
"""

from typing import Protocol

from kafka_zk.clients.connection.errors import ClientClosed


class Lease(Protocol):
    """The check whether this member still owns its partitions."""

    def may_act(self) -> bool:
        """Whether the owned partitions are certainly still owned."""

    def held_back(self) -> None:
        """Records wait that may not be handed out."""


class Membership:
    """The membership of one consumer, from its creation to its end."""

    def __init__(self) -> None:
        self.suspended = False
        """The connection to ZooKeeper is in doubt."""
        self.closed = False
        self.failure: Exception | None = None
        """Why this member cannot go on."""
        self._lease: Lease | None = None

    def begin(self, lease: Lease) -> None:
        """The consumer is in a group from now on."""
        self._lease = lease

    def may_act(self) -> bool:
        """Whether records may be handed out now; never before it is in a group."""
        return not self.suspended and self._lease is not None and self._lease.may_act()

    def held_back(self) -> None:
        """There are records that may not be handed out."""
        if self._lease is not None:
            self._lease.held_back()

    def check(self) -> None:
        """Raises: ClientClosed, or the failure, when there is nothing more to wait for."""
        if self.closed:
            raise ClientClosed("the consumer was closed")
        if self.failure is not None:
            raise self.failure
