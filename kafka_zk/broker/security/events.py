"""Denials of the authorizer, for observers (flight recorder, web page, tests)."""

from dataclasses import dataclass

from kafka_zk.base.events import Event


@dataclass(frozen=True, slots=True)
class Denied(Event):
    """The authorizer denied an operation. The cause is the ACL that decided, or that there is none.

    ``times``: 1 for the first denial of its kind, or the number of repetitions since. Names are those that clients
    chose, shortened if they are long.
    """

    principal: str
    host: str
    operation: str
    resource: str
    request: str
    times: int
