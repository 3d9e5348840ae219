"""Chooses a partition's leader: one pure function per strategy; None if no replica can lead.

``assigned``: the brokers of the assignment in order, the preferred leader first. ``live``: those of them that are live
with a working log directory.

    trigger               leader                                      new ISR
    new partition         first live                                  all live, in the order of the assignment
    leader gone           most trusted live one in the ISR            ISR without those not live or not trusted
      ... unclean         first live                                  the leader alone
    leader was away       as above; among equals the leader           as above
    reassignment          first live one of the target in the ISR     unchanged
    preferred             assigned[0] if live and in the ISR          unchanged
    controlled shutdown   first live one in the ISR that stays        ISR without those shutting down

Kafka does not rank members by trust (``Absences``, decision 0019). If no ISR member was away, the first one wins, as in
Kafka.
Source: Election.scala and PartitionLeaderElectionAlgorithms@3.9; KIP-966 (unclean starts).
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple


class Elected(NamedTuple):
    """``unclean``: the leader was not in the ISR, so records may be lost."""

    leader: int
    isr: list[int]
    unclean: bool = False


class Absences(NamedTuple):
    """ISR members that were gone although no controller removed them.

    ``away``: registered after the ISR was written. ``unclean``: started after an unclean shutdown, so acknowledged
    records may be missing.
    """

    away: Collection[int] = ()
    unclean: Collection[int] = ()

    def rank(self, broker_id: int) -> int:
        """0: never away; 1: was away; 2: started uncleanly."""
        return 2 if broker_id in self.unclean else int(broker_id in self.away)


NO_ABSENCES = Absences()


def new_partition(live: Sequence[int]) -> Elected | None:
    return Elected(live[0], list(live)) if live else None


def offline(
    assigned: Sequence[int],
    isr: Sequence[int],
    live: Collection[int],
    unclean_allowed: bool = False,
    absences: Absences = NO_ABSENCES,
) -> Elected | None:
    """Elect a leader when the leader is gone, or a replica of a leaderless partition is back. None: no replica can
    lead."""
    elected = _most_trusted(assigned, isr, live, absences)
    if elected is not None:
        return elected
    if unclean_allowed:
        for broker_id in assigned:
            if broker_id in live:
                return Elected(broker_id, [broker_id], unclean=True)
    return None


def returned(
    assigned: Sequence[int], isr: Sequence[int], live: Collection[int], leader: int, absences: Absences
) -> Elected | None:
    """Elect again, for a partition that ``must_be_elected_again``. The leader stays unless a more trusted member can
    lead."""
    return _most_trusted((leader, *assigned), isr, live, absences)


def must_be_elected_again(
    assigned: Sequence[int], isr: Sequence[int], live: Collection[int], leader: int, absences: Absences
) -> bool:
    """True if the leader was away and started uncleanly, if another member started uncleanly, or if a live member is
    more trusted.

    A leader that started uncleanly needs a new epoch even if it stays: only a new epoch makes its followers detect lost
    records.
    """
    if len(assigned) < 2:
        return False
    if leader in absences.away and leader in absences.unclean:
        return True
    others = [member for member in isr if member != leader]
    rank = absences.rank(leader)
    return any(member in absences.unclean or (member in live and absences.rank(member) < rank) for member in others)


def reassign(target: Sequence[int], isr: Sequence[int], live: Collection[int]) -> Elected | None:
    """Elect a leader when the current one is not in the reassignment's target. None: no replica in it can lead."""
    for broker_id in target:
        if broker_id in live and broker_id in isr:
            return Elected(broker_id, list(isr))
    return None


def preferred(assigned: Sequence[int], isr: Sequence[int], live: Collection[int]) -> Elected | None:
    """Return leadership to the first replica of the assignment. None: that replica cannot lead."""
    first = assigned[0] if assigned else None
    return Elected(first, list(isr)) if first is not None and first in live and first in isr else None


def controlled_shutdown(
    assigned: Sequence[int],
    isr: Sequence[int],
    live_or_shutting_down: Collection[int],
    shutting_down: Collection[int],
) -> Elected | None:
    """Elect a leader when the current one is about to stop. None: no other replica can lead."""
    for broker_id in assigned:
        if broker_id in live_or_shutting_down and broker_id in isr and broker_id not in shutting_down:
            return Elected(broker_id, [member for member in isr if member not in shutting_down])
    return None


def _most_trusted(
    candidates: Iterable[int], isr: Sequence[int], live: Collection[int], absences: Absences
) -> Elected | None:
    """The most trusted candidate; among equals, the first; None if none can lead. Other members that started uncleanly
    leave the ISR."""
    leader = min((each for each in candidates if each in live and each in isr), key=absences.rank, default=None)
    if leader is None:
        return None
    kept = [member for member in isr if member in live]
    return Elected(leader, [member for member in kept if member == leader or member not in absences.unclean])
