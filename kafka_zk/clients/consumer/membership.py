"""Decides whether a consumer may act as a member of its group. Every delivery and commit checks this first.

Any thread may call ``may_act``; everything else happens on the reactor thread.
"""

from typing import Protocol

from kafka_zk.clients.connection.errors import ClientClosed


class Lease(Protocol):
    def may_act(self) -> bool:
        """True if the owned partitions are certainly still owned."""

    def report_if_ended(self) -> None:
        """Report once that the lease has ended, if it has. Called while records wait for ``may_act``."""


class Membership:
    def __init__(self) -> None:
        self.suspended = False
        """Whether the connection to ZooKeeper is in doubt."""
        self.closed = False
        self.failure: Exception | None = None
        """Why this member cannot continue."""
        self._lease: Lease | None = None

    def begin(self, lease: Lease) -> None:
        self._lease = lease

    def may_act(self) -> bool:
        """False before ``begin``."""
        return not self.suspended and self._lease is not None and self._lease.may_act()

    def report_if_ended(self) -> None:
        if self._lease is not None:
            self._lease.report_if_ended()

    def check(self) -> None:
        """Raises ClientClosed or this member's failure."""
        if self.closed:
            raise ClientClosed("the consumer was closed")
        if self.failure is not None:
            raise self.failure
