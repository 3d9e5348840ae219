"""A connection whose listener checks its progress: a slow peer must not hold memory that others need.

Source: IdleExpiryManager of Selector.java@3.9 for idle connections; Kafka does not check a request's progress.
Tests: tests/kafka_zk/network/{test_listener,test_in_flight,test_starvation}.py.
"""

from twisted.logger import Logger

from kafka_zk.base.turns import ClientWait
from kafka_zk.network.connection import BrokerConnection
from kafka_zk.network.connection_states import CLOSED_PHASES, Slot

_log = Logger()


class SupervisedConnection(BrokerConnection):
    @property
    def is_busy(self) -> bool:
        """True if a request is in progress."""
        return self._holds_slot or bool(self._in_flight)

    @property
    def _holds_slot(self) -> bool:
        return self._slot is not Slot.IDLE and self._phase not in CLOSED_PHASES

    def made_progress(self, least_bytes: int) -> bool:
        """True if a request is in progress or if, since the last call, a frame began, ``least_bytes`` of a frame
        arrived, or the peer read ``least_bytes`` of the queued responses."""
        is_slow = self._input.is_slow(least_bytes)
        made_progress = self.active and not (is_slow and self.is_stalled)
        self.active = False
        is_taken = self._output.made_progress(least_bytes)
        if is_taken is not None:
            made_progress = is_taken
        if self._awaited is None and not self._holds_slot and not self._frames:
            self._settle()
        return self.is_busy or made_progress

    @property
    def is_stalled(self) -> bool:
        """True if the connection waits only for the rest of an incomplete frame."""
        return self._decoder.missing is not None and self._input.is_reading and self._slot is Slot.IDLE

    @property
    def holds_memory(self) -> bool:
        """True if the connection holds memory for responses that the peer does not read."""
        return self._output.seen_queued_bytes > 0 and self._memory.size_bytes > 0

    def expire_request_early(self) -> None:
        """End the request's wait (``ClientWait``) early if the request holds memory, because others need the memory."""
        if isinstance(self._awaited, ClientWait) and self._memory.size_bytes:
            self._awaited.expire_early()

    def give_up_request(self, waited_s: float) -> None:
        """Close the connection, because the rest of an incomplete request does not arrive."""
        decoder = self._decoder
        _log.warn(
            "{connection} closed: {received} of the {size} bytes of a request arrived, then too few in {waited_s:g} s",
            connection=self._name,
            received=decoder.buffered_size_bytes,
            size=decoder.size_bytes,
            waited_s=waited_s,
        )
        self.abort()

    def give_up_answer(self, waited_s: float) -> None:
        """Close the connection, because the peer does not read and others need the memory."""
        _log.warn(
            "{connection} closed: the peer hardly read its response for {waited_s:g} s; {size} bytes were unsent, and"
            " other requests wait for memory",
            connection=self._name,
            size=self._output.writer.queued_size_bytes,
            waited_s=waited_s,
        )
        self.abort()
