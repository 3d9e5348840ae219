"""``/kafka-zk/secret``: 32 random bytes that all brokers of a cluster share. Not in Kafka.

Brokers derive values from it that must be unpredictable and equal on all of them. The first broker that needs it
creates it.
"""

CLUSTER_SECRET = "/kafka-zk/secret"
SIZE_BYTES = 32
