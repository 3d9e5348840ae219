"""Reads what a real 3.9 broker logs about its start, in each mode. Pure.

Source: KafkaServer.scala, KafkaRaftServer.scala, BrokerLifecycleManager.scala@3.9.
"""

import re
from collections.abc import Iterable

from kafka_zk.migration.rehearsal.process_log import ProcessLog

_STARTED = re.compile(r"\[KafkaServer id=\d+\] started|\[KafkaRaftServer nodeId=\d+\] Kafka Server started")
_UNFENCED = "The broker has been unfenced"
_REFUSED = re.compile(r"Unable to register broker \d+ because the controller returned error (\w+)")


class BrokerLog(ProcessLog):
    """The log of one start. ``refusal``: the error with which the controller refuses to register the broker, empty if
    it has not refused."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__(secrets)
        self.is_started = False
        self.is_unfenced = False
        self.refusal = ""

    def _look(self, message: str) -> None:
        if _STARTED.search(message):
            self.is_started = True
        elif _UNFENCED in message:
            self.is_unfenced, self.refusal = True, ""
        elif found := _REFUSED.search(message):
            self.refusal = found[1]
