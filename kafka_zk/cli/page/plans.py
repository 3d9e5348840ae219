"""Plans that the page has shown and may carry out, once each."""

import secrets
from typing import Generic, TypeVar

from kafka_zk.cli.terminal.errors import CommandFailed

MOST_PLANS = 20
"""Older plans are forgotten."""

Plan = TypeVar("Plan")


class Plans(Generic[Plan]):
    """A plan that was carried out, even if it failed, must be made again."""

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}

    def add(self, plan: Plan) -> str:
        """Returns the name with which the page carries it out."""
        name = secrets.token_urlsafe(8)
        self._plans[name] = plan
        for oldest in list(self._plans)[:-MOST_PLANS]:
            self._plans.pop(oldest, None)
        return name

    def take(self, name: object) -> Plan:
        """Raises CommandFailed."""
        plan = self._plans.pop(str(name), None)
        if plan is None:
            raise CommandFailed("this plan was carried out already, or is too old: make the plan again")
        return plan
