"""Requests to ``kafka-zk up`` that cannot be carried out are refused: an exception would end the cluster."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_zk.cli.cluster.cluster_actions import ClusterActions
from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.control_socket import ActionRefused
from kafka_zk.embedded.proxied_cluster import ProxiedCluster


@pytest.mark.parametrize(
    "request_of",
    [
        {"action": "told", "what": "join", "group": "board"},
        {"action": "told", "what": "expire"},
        {"action": "told", "what": "leave", "member": ["board/anna"]},
        {"action": "cut", "broker": 0, "from": 5},
        {"action": "cut", "broker": 0, "from": [["zookeeper"]]},
        {"action": "delay", "broker": 0, "ms": 5, "from": "zookeeper"},
        {"action": "delay", "broker": 0, "ms": 5, "from": ["zookeper"]},
    ],
)
def test_what_makes_no_sense_is_refused(request_of: Mapping[str, Any], tmp_path: Path) -> None:
    cluster = ProxiedCluster(tmp_path, zookeeper="127.0.0.1:1", trace=tmp_path)
    cluster.brokers.append(cast("BrokerProcess", SimpleNamespace(broker_id=0, alive=True, pid=1, port=2)))
    actions = ClusterActions(cluster, lambda *_: None)
    with pytest.raises(ActionRefused):
        actions.answer(dict(request_of))
    actions.stop()
