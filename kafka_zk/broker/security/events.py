"""The authorizer's denials, for observers (flight recorder, web page, tests)."""

from dataclasses import dataclass

from kafka_zk.base.events import Event


@dataclass(frozen=True, slots=True)
class Denied(Event):
    """The cause is the ACL that decided, or the fact that no ACL applies. ``times``: 1 for the first denial of its
    kind, later the number of repetitions. Clients chose the names, which are shortened if long.
    """

    principal: str
    host: str
    operation: str
    resource: str
    request: str
    times: int
