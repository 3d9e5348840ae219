"""Logs denials like Kafka's ``kafka.authorizer.logger``, and counts them.

The first of a kind is logged immediately; repetitions within SUMMARY_S are summarised, so that no client can fill the
log. Source: AclAuthorizer.logAuditMessage@3.9.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from kafka_zk.base.clock import Timers
from kafka_zk.base.events import SILENT, EventSource
from kafka_zk.base.turns import in_slices
from kafka_zk.broker.security.authorizer import Operation, Resource
from kafka_zk.broker.security.events import Denied
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import RequestContext

LOGGER = "kafka.authorizer.logger"
SUMMARY_S = 60
MOST_KINDS = 1_000
"""Maximum number of kinds of denials that are logged separately within SUMMARY_S."""
MOST_TOLD = 50
"""Maximum number of kinds that are explained and reported to observers within SUMMARY_S."""

_LONGEST_NAME = 250
_log = Logger(namespace=LOGGER)
_own_log = Logger()


class _Kind(NamedTuple):
    principal: str
    host: str
    operation: Operation
    resource: Resource
    api_key: int

    def __str__(self) -> str:
        return (
            f"Principal = {_printable(self.principal)} is Denied Operation = {self.operation.label} from host = "
            f"{self.host} on resource = {self.resource.type}:LITERAL:{_printable(self.resource.name)} for request = "
            f"{_request(self.api_key)} with resourceRefCount = 1"
        )


Explain = Callable[[str, str, Operation, Resource], str]
"""Why a principal at a host is denied an operation, in a few words."""


class Denials:
    """``count``: number of all denials. ``explain``: called for observers only."""

    def __init__(self, clock: Timers, events: EventSource = SILENT) -> None:
        self._clock = clock
        self._events = events
        self.explain: Explain = lambda *asked: "the authorizer says no"
        self._repeats: dict[_Kind, int] = {}
        self._not_told = 0
        self._failures = 0
        self._strange_brokers: set[str] = set()
        self.count = 0

    def add(self, context: RequestContext, operation: Operation, resource: Resource) -> Literal[False]:
        """Log and count a denial. Returns False, which is the decision."""
        self.count += 1
        if len(resource.name) > _LONGEST_NAME:
            resource = resource._replace(name=resource.name[: _LONGEST_NAME + 1])
        who = context.principal[: _LONGEST_NAME + 1]
        kind = _Kind(who, context.peer_host, operation, resource, context.api_key)
        if kind in self._repeats:
            self._repeats[kind] += 1
        elif len(self._repeats) >= MOST_KINDS:
            self._not_told += 1
        else:
            if not self._repeats:
                self._clock.callLater(SUMMARY_S, self._summarise)
            self._repeats[kind] = 0
            _log.info("{denial}", denial=str(kind))
            if len(self._repeats) <= MOST_TOLD:
                self._report((kind, 1))
            if operation is Operation.CLUSTER_ACTION:
                self._tell_of_strange_broker(context)
        return False

    def failed(self, asked: tuple[object, ...]) -> None:
        """Log the exception of an authorizer, which counts as a denial. Call this in an ``except`` block."""
        if not self._failures:
            _own_log.failure("the authorizer failed, so the operation is denied: {asked}", asked=asked)
            self._clock.callLater(SUMMARY_S, self._summarise_failures)
        self._failures += 1

    def _summarise_failures(self) -> None:
        failures, self._failures = self._failures, 0
        if failures > 1:
            text = "the authorizer failed {times} more times in {seconds} s"
            _own_log.error(text, times=failures - 1, seconds=SUMMARY_S)

    def _summarise(self) -> None:
        repeats, self._repeats = self._repeats, {}
        not_told, self._not_told = self._not_told, 0
        told = [each for each in list(repeats.items())[:MOST_TOLD] if each[1]]
        ensureDeferred(in_slices(self._clock, map(self._report, told)))
        for kind, times in repeats.items():
            if times:
                text = "{denial}, {times} more times in {seconds} s"
                _log.info(text, denial=str(kind), times=times, seconds=SUMMARY_S)
        if not_told:
            _log.info("{count} other denials in {seconds} s", count=not_told, seconds=SUMMARY_S)

    def _report(self, denied: tuple[_Kind, int]) -> None:
        """Report a denial to observers. Explaining takes milliseconds if a resource has thousands of ACLs."""
        if not self._events.observed:
            return
        (principal, host, operation, resource, api_key), times = denied
        fields = (_printable(principal), host, operation.label, f"{resource.type} {_printable(resource.name)}")
        cause = self.explain(principal, host, operation, resource)
        self._events.emit(Denied, *fields, _request(api_key), times, cause=_printable(cause))

    def _tell_of_strange_broker(self, context: RequestContext) -> None:
        """Log a denied broker, once per principal, because a cluster whose brokers are denied access to each other
        stops working."""
        who = context.principal[: _LONGEST_NAME + 1]
        if who not in self._strange_brokers and len(self._strange_brokers) < MOST_KINDS:
            self._strange_brokers.add(who)
            _own_log.warn(
                "{principal} at {host} was denied a request that only brokers may send. If it is a broker, add"
                " {principal} to super.users, or add an ACL that allows {principal} ClusterAction on the cluster",
                principal=_printable(context.principal),
                host=context.peer_host,
            )


def _printable(name: str) -> str:
    """A printable form of a name, because a client could choose a name that imitates a log line."""
    shown = name[:_LONGEST_NAME] + "…" * (len(name) > _LONGEST_NAME)
    return shown if shown.isprintable() else ascii(shown)[1:-1]


def _request(api_key: int) -> str:
    try:
        return "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))
    except ValueError:
        return "Unknown"
