"""What the authorizer denied, for observers (flight recorder, web page, tests)."""

from dataclasses import dataclass

from kafka_zk.base.events import Event


@dataclass(frozen=True, slots=True)
class Denied(Event):
    """The authorizer did not let a client do something; the cause is the ACL that decided, or that there is none.

    ``times``: 1 for the first denial of its kind, or how often it was repeated since. Names are those that clients
    chose, cut where they are long.
    """

    principal: str
    host: str
    operation: str
    resource: str
    request: str
    times: int
