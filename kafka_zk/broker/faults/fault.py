"""A fault: its kind and arguments, the requests that it hits, and how often it has fired. Pure.

A fault is described by one JSON object: ``fault`` names the kind, and the other keys are the kind's arguments and
filters. A fault without a filter hits all requests of its APIs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka_zk.broker.faults.arguments import ARGUMENTS
from kafka_zk.broker.faults.errors import InvalidFault
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey

_FILTERS = ("client_id", "topic", "group")


class Kind(NamedTuple):
    """``required``, ``optional``: names of arguments. ``apis``: the APIs whose requests the fault hits by default;
    empty if the argument ``api`` is required, or if the fault does not act on requests. ``at_one``: one broker of a
    cluster carries out the fault, and the others raise WrongBroker."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    apis: tuple[ApiKey, ...] = ()
    at_one: bool = False


KINDS = {
    "error": Kind(("api", "code"), ("times", *_FILTERS)),
    "drop_answer": Kind(("api",), ("nth", *_FILTERS)),
    "throttle": Kind(("ms",), ("api", "times", *_FILTERS), (ApiKey.PRODUCE, ApiKey.FETCH)),
    "slow_fetch": Kind(("ms",), ("times", "client_id", "topic"), (ApiKey.FETCH,)),
    "coordinator_moves": Kind((), ("group",), at_one=True),
    "leader_moves": Kind(("topic", "partition"), at_one=True),
    "rebalance_amid_commit": Kind(("group",), ("times", "client_id"), (ApiKey.OFFSET_COMMIT,)),
    "fence": Kind(("transactional_id",), at_one=True),
    "out_of_order_sequence": Kind((), ("times", "client_id", "topic"), (ApiKey.PRODUCE,)),
    "intercept": Kind(("port",), ("messages", "api", "times", *_FILTERS), tuple(BROKER_VERSIONS)),
    "expire_session": Kind(),
    "disk_full": Kind(),
    "clock_step": Kind(("step_ms",)),
}
"""All faults, by name."""

_ONCE = frozenset({"error", "drop_answer", "rebalance_amid_commit", "out_of_order_sequence"})
"""Faults that fire once unless ``times`` says otherwise. Other faults fire until they end."""


class RequestNames(NamedTuple):
    """The names in a request that filters compare."""

    client_id: str | None
    topics: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()


@dataclass(slots=True)
class Fault:
    """``number``: identifies the fault at its broker. ``most``: maximum of ``fired``; None: no limit. ``skipped``:
    number of matching requests that will still pass before the fault first fires."""

    number: int
    kind: str
    apis: tuple[int, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    most: int | None = None
    skipped: int = 0
    fired: int = 0

    def hits(self, request: RequestNames) -> bool:
        """Returns True if the fault fires for this request, and counts it."""
        wanted = self.arguments
        if (
            ("client_id" in wanted and wanted["client_id"] != request.client_id)
            or ("topic" in wanted and wanted["topic"] not in request.topics)
            or ("group" in wanted and wanted["group"] not in request.groups)
            or (self.most is not None and self.fired >= self.most)
        ):
            return False
        if self.skipped:
            self.skipped -= 1
            return False
        self.fired += 1
        return True

    def as_document(self) -> dict[str, Any]:
        """The fault as JSON."""
        return {"id": self.number, "fault": self.kind, "fired": self.fired, **_as_json(self.arguments)}


def read_fault(number: int, document: Any) -> Fault:
    """Read a fault from its JSON object. Raises InvalidFault."""
    if not isinstance(document, dict):
        raise InvalidFault("a fault is a JSON object")
    name = document.get("fault")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InvalidFault(f"there is no fault {name!r}: it must be one of {', '.join(KINDS)}")
    given = {key: value for key, value in document.items() if key != "fault" and value is not None}
    if unknown := sorted(given.keys() - {*kind.required, *kind.optional}):
        raise InvalidFault(f"{name} has no argument {unknown[0]!r}")
    if missing := [key for key in kind.required if key not in given]:
        raise InvalidFault(f"{name} needs {missing[0]!r}")
    arguments = {key: _read(key, value) for key, value in given.items()}
    apis = (arguments["api"],) if "api" in arguments else kind.apis
    most = arguments.get("times", 1 if name in _ONCE else None)
    return Fault(number, str(name), tuple(map(int, apis)), arguments, most, arguments.get("nth", 1) - 1)


def _read(name: str, value: Any) -> Any:
    read: Callable[[Any], Any] = ARGUMENTS[name]
    try:
        return read(value)
    except ValueError as error:
        raise InvalidFault(f"{name}: {error}") from None


def _as_json(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value.name if key in ("api", "code") else value for key, value in arguments.items()}
