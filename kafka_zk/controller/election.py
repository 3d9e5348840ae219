"""Who becomes the leader: one small function of plain values per strategy. None means that nobody can.

``assigned`` is the assignment in order (the preferred leader first), ``live`` those of it whose broker and log
directory are alive.

    trigger               leader                                      new ISR
    new partition         first live                                  all live, in the order of the assignment
    leader gone           first live one in the ISR                   ISR without those not live
      ... unclean         first live                                  the leader alone
    reassignment          first live one of the target in the ISR     unchanged
    preferred             assigned[0] if live and in the ISR          unchanged
    controlled shutdown   first live one in the ISR that stays        ISR without those shutting down

Source: Election.scala and PartitionLeaderElectionAlgorithms@3.9.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Elected(NamedTuple):
    """The new leader and ISR; ``unclean`` when the leader was not in the ISR, so that records may be lost."""

    leader: int
    isr: list[int]
    unclean: bool = False


def new_partition(live: Sequence[int]) -> Elected | None:
    """A partition that never had a leader."""
    return Elected(live[0], list(live)) if live else None


def offline(
    assigned: Sequence[int], isr: Sequence[int], live: Collection[int], unclean_allowed: bool = False
) -> Elected | None:
    """The leader is gone, or a replica came back to a partition without a leader."""
    for broker_id in assigned:
        if broker_id in live and broker_id in isr:
            return Elected(broker_id, [member for member in isr if member in live])
    if unclean_allowed:
        for broker_id in assigned:
            if broker_id in live:
                return Elected(broker_id, [broker_id], unclean=True)
    return None


def reassign(target: Sequence[int], isr: Sequence[int], live: Collection[int]) -> Elected | None:
    """The leader is not among the replicas that the partition is moving to."""
    for broker_id in target:
        if broker_id in live and broker_id in isr:
            return Elected(broker_id, list(isr))
    return None


def preferred(assigned: Sequence[int], isr: Sequence[int], live: Collection[int]) -> Elected | None:
    """Give the leadership back to the first replica of the assignment."""
    first = assigned[0] if assigned else None
    return Elected(first, list(isr)) if first is not None and first in live and first in isr else None


def controlled_shutdown(
    assigned: Sequence[int],
    isr: Sequence[int],
    live_or_shutting_down: Collection[int],
    shutting_down: Collection[int],
) -> Elected | None:
    """The leader announced that it will stop."""
    for broker_id in assigned:
        if broker_id in live_or_shutting_down and broker_id in isr and broker_id not in shutting_down:
            return Elected(broker_id, [member for member in isr if member not in shutting_down])
    return None
