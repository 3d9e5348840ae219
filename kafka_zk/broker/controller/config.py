"""The controller's configuration, which the broker fills from ``server.properties``."""

from dataclasses import dataclass

from kafka_zk.broker.config.inter_broker_protocol import LATEST_CONTROL_VERSIONS, ControlVersions


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """``listener_name``: the inter-broker listener. ``versions``: versions of the requests to brokers. The other fields
    are Kafka's keys of the same names."""

    listener_name: str = "PLAINTEXT"
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    versions: ControlVersions = LATEST_CONTROL_VERSIONS
