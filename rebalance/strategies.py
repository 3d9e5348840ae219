"""The table of assignment strategies, by the name that ``partition.assignment.strategy`` gives them.

To add one: write it as a module of its own and name it here; ``tests/rebalance/test_strategies.py`` then checks it.
"""

from collections.abc import Mapping

from rebalance.assignment import Assignor
from rebalance.range import RangeAssignor
from rebalance.roundrobin import RoundRobinAssignor
from rebalance.sticky import StickyAssignor

ASSIGNORS: Mapping[str, Assignor] = {
    assignor.name: assignor for assignor in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor())
}


class UnknownStrategy(ValueError):
    """No strategy has that name. (Kafka's consumer takes ``range`` for any name that it does not know.)"""


def assignor_named(name: str) -> Assignor:
    """Raises: UnknownStrategy, naming those that there are."""
    try:
        return ASSIGNORS[name]
    except KeyError:
        raise UnknownStrategy(f"no assignment strategy {name!r}: there are {', '.join(sorted(ASSIGNORS))}") from None
