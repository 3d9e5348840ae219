"""What a controller can be told; the broker fills it from ``server.properties``."""

from dataclasses import dataclass

from kafka_zk.broker.config.inter_broker_protocol import LATEST_CONTROL_VERSIONS, ControlVersions


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """``listener_name``: the listener by which brokers reach each other; ``versions``: of the requests to them. The
    rest are Kafka's keys of these names."""

    listener_name: str = "PLAINTEXT"
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    versions: ControlVersions = LATEST_CONTROL_VERSIONS
