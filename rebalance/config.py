"""Settings of a group member, named as in Kafka's old consumer."""

from dataclasses import dataclass

DEFAULT_BACKOFF_MS = 2000
DEFAULT_RETRIES = 4


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Defaults are those of Kafka's old consumer.

    ``rebalance_backoff_ms`` x ``rebalance_max_retries``: time that a claim waits before a warning names the owner.
    Kafka's consumer then gives up; this one keeps waiting. ``exclude_internal_topics``: filters match no internal
    topic.
    Source: ConsumerConfig.scala@0.10.2.
    """

    rebalance_backoff_ms: int = DEFAULT_BACKOFF_MS
    rebalance_max_retries: int = DEFAULT_RETRIES
    exclude_internal_topics: bool = True

    @property
    def claim_timeout_ms(self) -> int:
        return self.rebalance_backoff_ms * self.rebalance_max_retries

    def warning(self, session_timeout_ms: int) -> str | None:
        """A warning of one sentence; None if the settings are fine."""
        if self.claim_timeout_ms > session_timeout_ms:
            return None
        return (
            f"rebalance.max.retries x rebalance.backoff.ms ({self.claim_timeout_ms} ms) is not above the session"
            f" timeout ({session_timeout_ms} ms): Kafka's consumers would give up before a dead owner is gone"
        )
