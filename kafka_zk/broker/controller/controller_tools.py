"""Objects that all components of the controller share during one controller epoch."""

from typing import NamedTuple

from kafka_zk.base.turns import Turns
from kafka_zk.broker.controller.context import Context
from kafka_zk.broker.controller.reporter import ControllerReporter
from kafka_zk.broker.controller.state_changes import StateChanges
from kafka_zk.broker.controller.store import ControllerStore


class ControllerTools(NamedTuple):
    """``turns``: yields to other work of the reactor during an event."""

    context: Context
    store: ControllerStore
    changes: StateChanges
    reporter: ControllerReporter
    turns: Turns
