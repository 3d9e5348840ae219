"""The controller's dependencies, which its broker provides."""

from random import Random
from typing import NamedTuple

from kafka_zk.base.clock import Clock
from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.broker.controller.channels import Connect
from kafka_zk.registry.client.client import RegistryClient


class Environment(NamedTuple):
    """``client``: the ZooKeeper client whose session holds the broker's registration. ``connect``: opens a connection
    to a broker (``KafkaConnection``) and negotiates versions."""

    broker_id: int
    client: RegistryClient
    clock: Clock
    connect: Connect
    random: Random = SYSTEM_RANDOM
