"""What the parts of a reign work with."""

from typing import NamedTuple

from kafka_zk.base.turns import Turns
from kafka_zk.broker.controller.context import Context
from kafka_zk.broker.controller.reporter import ControllerReporter
from kafka_zk.broker.controller.state_changes import StateChanges
from kafka_zk.broker.controller.store import ControllerStore


class ReignTools(NamedTuple):
    """``turns``: give the rest of the reactor its turn while an event is worked on."""

    context: Context
    store: ControllerStore
    changes: StateChanges
    reporter: ControllerReporter
    turns: Turns
