"""Shrinks a failing run to fewer and shorter faults, as long as a judge still finds something."""

from collections.abc import Callable, Iterator, Sequence

from kafka_zk.sim.campaign.plan import Fault
from kafka_zk.sim.campaign.run import Outcome

Play = Callable[[Sequence[Fault]], Outcome]
_SHORTEST_MS = 100


def shrunk(outcome: Outcome, play: Play, tries: int = 60) -> Outcome:
    """A shorter run of the same seed that also fails, after at most ``tries`` attempts."""
    left = tries
    smaller: Outcome | None = outcome
    while smaller is not None:
        outcome, smaller = smaller, None
        for plan in _smaller_plans(outcome.plan):
            if left == 0:
                return outcome
            left -= 1
            tried = play(plan)
            if tried.violations:
                smaller = tried
                break
    return outcome


def _smaller_plans(plan: Sequence[Fault]) -> Iterator[list[Fault]]:
    """Plans without one fault, beginning with the last, because the first are needed more often; then with one fault
    halved.
    """
    for number in reversed(range(len(plan))):
        yield [*plan[:number], *plan[number + 1 :]]
    for number, fault in enumerate(plan):
        if fault.duration_ms >= 2 * _SHORTEST_MS:
            yield [*plan[:number], fault._replace(duration_ms=fault.duration_ms // 2), *plan[number + 1 :]]


def as_scenario(seed: int, plan: Sequence[Fault], old_rule: str | None, found: str) -> str:
    """The run of a seed as a scenario: the judges' finding, and the faults that cause it."""
    rule = [f"old rule {old_rule}"] if old_rule else []
    faults = [f"fault {fault}" for fault in plan]
    head = [f"# Seed {seed}: {found}", "", *rule, f"play seed {seed}", *faults]
    ours = "expect the judges find nothing"
    expected = ["[old] expect not the judges find nothing", f"[ours] {ours}"] if old_rule else [ours]
    return "\n".join([*head, *expected, ""])
