"""Apache Kafka as it was while ZooKeeper held it together, in Python.

docs/reference/api.md lists the public names.
"""

from typing import TYPE_CHECKING

from kafka_zk.base.public_names import lazy

if TYPE_CHECKING:
    from kafka_zk.base.types import TopicPartition
    from kafka_zk.clients.admin.admin import Admin, NewTopic
    from kafka_zk.clients.admin.blocking_admin import BlockingAdmin, BlockingGroupAdmin
    from kafka_zk.clients.admin.group_admin import GroupAdmin
    from kafka_zk.clients.connection.errors import AuthenticationError, KafkaError
    from kafka_zk.clients.consumer.blocking_consumer import BlockingConsumer, BlockingZookeeperConsumer
    from kafka_zk.clients.consumer.blocking_reader import BlockingReader
    from kafka_zk.clients.consumer.consumer import Consumer
    from kafka_zk.clients.consumer.errors import CommitRefused
    from kafka_zk.clients.consumer.reader import Reader
    from kafka_zk.clients.consumer.rebalance_listener import RebalanceListener
    from kafka_zk.clients.consumer.records import ConsumerRecord
    from kafka_zk.clients.consumer.starts import Timestamp
    from kafka_zk.clients.consumer.zookeeper_consumer import ZookeeperConsumer
    from kafka_zk.clients.producer.blocking import BlockingProducer
    from kafka_zk.clients.producer.errors import ProducerFenced, TransactionAbortable
    from kafka_zk.clients.producer.producer import Producer
    from kafka_zk.clients.producer.producer_record import ProducerRecord
    from kafka_zk.embedded.cluster import EmbeddedCluster
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "Admin": "kafka_zk.clients.admin.admin",
            "AuthenticationError": "kafka_zk.clients.connection.errors",
            "BlockingAdmin": "kafka_zk.clients.admin.blocking_admin",
            "BlockingConsumer": "kafka_zk.clients.consumer.blocking_consumer",
            "BlockingGroupAdmin": "kafka_zk.clients.admin.blocking_admin",
            "BlockingProducer": "kafka_zk.clients.producer.blocking",
            "BlockingReader": "kafka_zk.clients.consumer.blocking_reader",
            "BlockingZookeeperConsumer": "kafka_zk.clients.consumer.blocking_consumer",
            "CommitRefused": "kafka_zk.clients.consumer.errors",
            "Consumer": "kafka_zk.clients.consumer.consumer",
            "ConsumerRecord": "kafka_zk.clients.consumer.records",
            "EmbeddedCluster": "kafka_zk.embedded.cluster",
            "GroupAdmin": "kafka_zk.clients.admin.group_admin",
            "KafkaError": "kafka_zk.clients.connection.errors",
            "NewTopic": "kafka_zk.clients.admin.admin",
            "Producer": "kafka_zk.clients.producer.producer",
            "ProducerFenced": "kafka_zk.clients.producer.errors",
            "ProducerRecord": "kafka_zk.clients.producer.producer_record",
            "Reader": "kafka_zk.clients.consumer.reader",
            "RebalanceListener": "kafka_zk.clients.consumer.rebalance_listener",
            "Timestamp": "kafka_zk.clients.consumer.starts",
            "TopicPartition": "kafka_zk.base.types",
            "TransactionAbortable": "kafka_zk.clients.producer.errors",
            "ZookeeperConsumer": "kafka_zk.clients.consumer.zookeeper_consumer",
        },
    )

__version__ = "0.1.0"

__all__ = [
    "Admin",
    "AuthenticationError",
    "BlockingAdmin",
    "BlockingConsumer",
    "BlockingGroupAdmin",
    "BlockingProducer",
    "BlockingReader",
    "BlockingZookeeperConsumer",
    "CommitRefused",
    "Consumer",
    "ConsumerRecord",
    "EmbeddedCluster",
    "GroupAdmin",
    "KafkaError",
    "NewTopic",
    "Producer",
    "ProducerFenced",
    "ProducerRecord",
    "Reader",
    "RebalanceListener",
    "Timestamp",
    "TopicPartition",
    "TransactionAbortable",
    "ZookeeperConsumer",
    "__version__",
]
