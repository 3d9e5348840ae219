"""The requests of ``kafka-zk break`` and the web page to ``kafka-zk up``, which records them in its trace."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafka_zk.base.clock import wall_ms
from kafka_zk.cli.cluster.break_actions import ACTIONS, BROKER, expected, target_of
from kafka_zk.cli.cluster.broker_faults import BrokerFaults
from kafka_zk.cli.cluster.workload import Workload
from kafka_zk.embedded.control_socket import ActionRefused
from kafka_zk.recorder.timeline.cluster_events import OPERATOR, OperatorActed
from kafka_zk.recorder.timeline.trace_file import TraceWriter

if TYPE_CHECKING:
    from kafka_zk.embedded.broker import BrokerProcess
    from kafka_zk.embedded.cluster import EmbeddedCluster

DESCRIBE = "describe"
TOLD = "told"
"""The request reports what a client has already done to a broker; ``up`` only records it."""

Document = dict[str, Any]


class ClusterActions:
    """Handles requests of a control socket. Call ``stop`` at the end.

    Args:
        did: called after each success with the action, its target, and the broker if the target is one.
    Raises: OSError.
    """

    def __init__(self, cluster: "EmbeddedCluster", did: Callable[[str, str, "BrokerProcess | None"], None]) -> None:
        self._cluster = cluster
        self._did = did
        self.faults = BrokerFaults(cluster, lambda action, broker: did(action, str(broker.broker_id), broker))
        self._workload = Workload(cluster)
        self._trace = None if cluster.trace is None else TraceWriter(cluster.trace, OPERATOR)

    def answer(self, request: Document) -> Document:
        """Raises EmbeddedError with the reason for a refusal."""
        name = str(request.get("action"))
        if name == DESCRIBE:
            return self._description()
        if name == TOLD:
            name = str(request.get("what"))
            if name not in ACTIONS or ACTIONS[name].target != BROKER or not isinstance(request.get(BROKER), int):
                raise ActionRefused(f"{name!r} is not an action on a broker")
            answer: Document = {}
        elif name in self._workload.actions:
            answer = self._workload.actions[name](request)
            self._did(name, str(answer.get("member", answer["topic"])), None)
        else:
            answer = self.faults.answer(request)
        return {**answer, "expected": self._record(name, {**request, **answer})}

    def stop(self) -> None:
        self._workload.stop()
        if self._trace is not None:
            self._trace.close()

    def _record(self, name: str, told: Document) -> str:
        sentence = self._expected(name)
        if self._trace is not None:
            target = str(told["member"]) if name == "join" else target_of(name, told)
            self._trace(OperatorActed(wall_ms(), OPERATOR, "requested", 0, name, target, sentence))
        return sentence

    def _expected(self, name: str) -> str:
        return expected(name, self._cluster.session_timeout_ms / 1000, self._cluster.supervised)

    def _description(self) -> Document:
        cluster = self._cluster
        return {
            "data": str(cluster.data_dir),
            "zookeeper": cluster.zookeeper_connect,
            "bootstrap": cluster.bootstrap,
            "client_properties": None if cluster.security is None else str(cluster.security.client_file),
            "trace": None if cluster.trace is None else str(cluster.trace.resolve()),
            "session_timeout_ms": cluster.session_timeout_ms,
            "supervised": cluster.supervised,
            "expected": {name: self._expected(name) for name in ACTIONS},
            "brokers": self.faults.states(),
            **self._workload.description(),
        }
