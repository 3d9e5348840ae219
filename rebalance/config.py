"""The settings of a group member, named as in Kafka's old consumer."""

from dataclasses import dataclass

DEFAULT_BACKOFF_MS = 2000
DEFAULT_RETRIES = 4


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """``rebalance.max.retries`` x ``rebalance.backoff.ms`` is how long a claim waits before a warning names the owner.

    Kafka's consumer gave up then; ours goes on waiting. Source: ConsumerConfig.scala@0.10.2.
    """

    rebalance_backoff_ms: int = DEFAULT_BACKOFF_MS
    rebalance_max_retries: int = DEFAULT_RETRIES
    exclude_internal_topics: bool = True

    @property
    def patience_ms(self) -> int:
        """Retries times back-off."""
        return self.rebalance_backoff_ms * self.rebalance_max_retries

    def doubt(self, session_timeout_ms: int) -> str | None:
        """What is to be warned of at the start, in a sentence; None for nothing."""
        if self.patience_ms > session_timeout_ms:
            return None
        return (
            f"rebalance.max.retries x rebalance.backoff.ms ({self.patience_ms} ms) is not above the session timeout"
            f" ({session_timeout_ms} ms): Kafka's consumers would give up before a dead owner is gone"
        )
