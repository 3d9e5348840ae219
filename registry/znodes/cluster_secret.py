"""``/kafka-zk/secret``: 32 random bytes that all brokers of a cluster share. Ours, not Kafka's.

Values that must be equal on all brokers and unpredictable are derived from it. The first broker that needs it creates
it.
"""

CLUSTER_SECRET = "/kafka-zk/secret"
SIZE_BYTES = 32
