"""A plan is carried out once, and not at all if it is old."""

import pytest

from kafka_zk.cli.page.plans import MOST_PLANS, Plans
from kafka_zk.cli.terminal.errors import CommandFailed


def test_a_plan_is_carried_out_once() -> None:
    plans: Plans[int] = Plans()
    name = plans.add(7)
    assert plans.take(name) == 7
    for unknown in (name, None, "other", 3):
        with pytest.raises(CommandFailed, match="make the plan again"):
            plans.take(unknown)


def test_old_plans_are_forgotten() -> None:
    plans: Plans[int] = Plans()
    names = [plans.add(number) for number in range(MOST_PLANS + 1)]
    assert plans.take(names[-1]) == MOST_PLANS
    with pytest.raises(CommandFailed, match="too old"):
        plans.take(names[0])
