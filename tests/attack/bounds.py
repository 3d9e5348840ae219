"""What an attack may cost other clients: the bounds, and a sentence for each bound that was broken."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

MORE_THAN_QUIET_MS = 250.0
MEMORY_MB = 300.0


@dataclass(frozen=True, slots=True)
class Quiet:
    """A run without an attack: the longest wait of the honest client."""

    longest_wait_ms: float

    @property
    def bound_ms(self) -> float:
        return self.longest_wait_ms + MORE_THAN_QUIET_MS

    def __str__(self) -> str:
        return (
            f"bounds: a wait of {self.bound_ms:,.0f} ms ({self.longest_wait_ms:,.0f} ms when it is quiet + "
            f"{MORE_THAN_QUIET_MS:.0f}), {MEMORY_MB:.0f} MB, every connection answered or closed with a line in the log"
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was observed during an attack.

    Args:
        longest_wait_ms, errors: of the honest client; None and empty if there was none.
        peak_mb: of the broker and its helpers.
        waiting: peers ("host:port") that got neither a response nor a refusal.
        refused: peers whose connection the broker closed while they waited for a response.
        log: the broker's log during the attack.
    """

    longest_wait_ms: float | None
    peak_mb: float
    log: str
    errors: dict[str, int] = field(default_factory=dict)
    waiting: Sequence[str] = ()
    refused: Sequence[str] = ()


def broken_bounds(quiet: Quiet, outcome: Outcome) -> list[str]:
    """A sentence for each broken bound."""
    broken = []
    wait_ms = outcome.longest_wait_ms
    if wait_ms is not None and wait_ms > quiet.bound_ms:
        broken.append(
            f"another client waited {wait_ms:,.0f} ms, at most {quiet.bound_ms:,.0f} ms are allowed "
            f"({quiet.longest_wait_ms:,.0f} ms when it is quiet + {MORE_THAN_QUIET_MS:.0f})"
        )
    if outcome.errors:
        broken.append(f"another client met errors: {outcome.errors}")
    if outcome.peak_mb > MEMORY_MB:
        broken.append(f"the broker took {outcome.peak_mb:,.0f} MB, at most {MEMORY_MB:.0f} MB are allowed")
    if outcome.waiting:
        broken.append(f"{len(outcome.waiting)} connections neither answered nor closed, such as {outcome.waiting[0]}")
    silent = [peer for peer in outcome.refused if not re.search(re.escape(peer) + r"\b", outcome.log)]
    if silent:
        broken.append(f"{len(silent)} connections closed without a line in the log, such as {silent[0]}")
    if tracebacks := outcome.log.count("Traceback (most recent call last)"):
        broken.append(f"{tracebacks} tracebacks in the log")
    return broken
