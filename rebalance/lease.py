"""Decides whether a member may deliver a record or write an offset.

A member may do so while its ZooKeeper session is certainly alive, the connection is not in doubt, and the process has
not paused since the last response (a watch may have fired during a pause).
"""

from kafka_zk.base.clock import Clock
from kafka_zk.rebalance.events import LeaseEnded
from kafka_zk.rebalance.reporter import GroupReporter
from kafka_zk.rebalance.stalls import StallGuard
from kafka_zk.registry.client.client import RegistryClient


class Lease:
    """Call ``start`` before the first check, and ``stop`` when the member leaves."""

    def __init__(self, client: RegistryClient, clock: Clock, reporter: GroupReporter) -> None:
        self._client = client
        self._clock = clock
        self._reporter = reporter
        self._stalls = StallGuard(clock, client.sync)
        self.in_doubt = False  # the connection broke, and ownership was not checked since
        self._end_was_reported = False

    def start(self) -> None:
        """Begin to detect pauses of the process. Call this on the reactor thread."""
        self._stalls.start()

    def stop(self) -> None:
        self._stalls.stop()

    def may_act(self) -> bool:
        """True if a record may be delivered now. The only method that any thread may call."""
        return self.may_write() and self._clock.seconds() < self._stalls.awake_until_s

    def may_write(self) -> bool:
        held = self._client.lease_held()
        if held:
            self._end_was_reported = False
        return held and not self.in_doubt

    def report_if_ended(self) -> None:
        """Report the end of the lease, once. Call this while records wait; it does nothing if they wait for another
        reason."""
        if not self.in_doubt and not self._end_was_reported and not self.may_write():
            self._end_was_reported = True
            self._reporter.event(LeaseEnded, "ZooKeeper has not responded")
