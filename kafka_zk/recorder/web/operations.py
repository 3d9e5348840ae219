"""What the page asks a live cluster itself, and what it changes in it: the daily work of an operator.

The command line supplies the operations, because its commands do the same work. They run on threads, since they wait
for brokers. Each act that has changed the cluster, or may have, is recorded as an act of the person, with the principal
who changed the cluster.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from kafka_zk.base.clock import wall_ms
from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.timeline.cluster_events import OPERATOR, OperatorActed

Ask = Callable[[Mapping[str, str]], Document]
"""Answers a question. The values are unchecked. Raises an exception whose message gives the reason for a refusal."""


class Refused(Exception):
    """``str()`` gives the reason."""


class Done(NamedTuple):
    """The outcome of an act: the answer for the page, and what to record.

    ``action``: None if nothing was changed. ``target``: what was changed. ``principal``: who changed it, for the
    cluster. ``expected``: the effect. None of them contains a record's key or value.
    """

    answer: Document
    action: str | None = None
    target: str = ""
    principal: str = ""
    expected: str = ""

    def event(self) -> OperatorActed | None:
        if self.action is None:
            return None
        cause, expected = f"requested on the page, as {self.principal}", f"{self.expected} (as {self.principal})"
        return OperatorActed(wall_ms(), OPERATOR, cause, 0, self.action, self.target, expected)


class PerhapsDone(Exception):
    """An act failed, but has changed a part or may have been carried out. ``done``: what to record. ``str()`` gives the
    reason.
    """

    def __init__(self, reason: str, done: Done) -> None:
        super().__init__(reason)
        self.done = done


Act = Callable[[Document], Done]
"""Runs a command (a document with an ``action``). Raises as ``Ask``, and PerhapsDone."""


class Operations(NamedTuple):
    """``questions``: by name. ``acts``: by action; empty if the page may only read. ``private``: questions whose
    answers contain keys and values of records; empty if the page may not show them.
    """

    questions: Mapping[str, Ask]
    acts: Mapping[str, Act]
    private: Mapping[str, Ask] = MappingProxyType({})


class Asked(NamedTuple):
    """Questions to the live cluster, by name. ``private`` ones need ``values_token`` as well."""

    questions: Mapping[str, Ask] = MappingProxyType({})
    private: Mapping[str, Ask] = MappingProxyType({})
    values_token: str = ""


class Commands:
    """The commands of the page: those that break brokers, and the acts of daily work.

    Args:
        break_broker: None if the page cannot break brokers.
        acts: by action.
        record: called on the command's thread with each act that has changed the cluster, or may have.
    """

    def __init__(
        self,
        break_broker: Callable[[Document], Document] | None,
        acts: Mapping[str, Act],
        record: Callable[[OperatorActed], object],
    ) -> None:
        self._break_broker = break_broker
        self._acts = acts
        self._record = record

    def run(self, request: Document) -> Document:
        """Raises: an exception whose message gives the reason for a refusal."""
        act = self._acts.get(str(request["action"]))
        if act is not None:
            try:
                done = act(request)
            except PerhapsDone as failed:
                self._keep(failed.done)
                raise
            self._keep(done)
            return done.answer
        if self._break_broker is None:
            raise Refused("only a kafka-zk up cluster can be broken from the page")
        return self._break_broker(request)

    def _keep(self, done: Done) -> None:
        if (event := done.event()) is not None:
            self._record(event)
