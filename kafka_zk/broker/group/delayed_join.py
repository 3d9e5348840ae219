"""A rebalance's join phase: how long a group waits for its members.

Members of an empty group join together after an initial delay. The delay is repeated while new members arrive, up to
the rebalance timeout. In any other group, the phase ends when all members have joined, or at the rebalance timeout.

Pure. Source: DelayedJoin.scala, InitialDelayedJoin in DelayedJoin.scala@3.9; KIP-134.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class DelayedJoin:
    """The join phase of one rebalance.

    Attributes:
        deadline_ms: monotonic time when the phase ends, or when the initial delay is repeated.
        delay_ms: the current initial delay; 0 if the group was not empty.
        remaining_ms: possible extension of the initial delay; None if the group was not empty.
        has_new_member: whether a member joined before the first generation and during the current initial delay.
    """

    deadline_ms: int
    delay_ms: int = 0
    remaining_ms: int | None = None
    has_new_member: bool = False

    @classmethod
    def initial(cls, now_ms: int, delay_ms: int, rebalance_timeout_ms: int) -> "DelayedJoin":
        """The phase of a group that was empty."""
        return cls(now_ms + delay_ms, delay_ms, max(rebalance_timeout_ms - delay_ms, 0))

    @property
    def is_initial(self) -> bool:
        return self.remaining_ms is not None

    def extended(self, now_ms: int, delay_ms: int) -> "DelayedJoin | None":
        """The phase after ``deadline_ms``, up to ``delay_ms`` longer; None if it ends."""
        if not self.remaining_ms or not self.has_new_member:
            return None
        delay_ms = min(delay_ms, self.remaining_ms)
        return DelayedJoin(now_ms + delay_ms, delay_ms, max(self.remaining_ms - self.delay_ms, 0))
