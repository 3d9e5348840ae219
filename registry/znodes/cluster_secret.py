"""``/kafka-zk/secret``: 32 random bytes that all brokers of a cluster share. Ours, not Kafka's.

Whatever must look the same on every broker and must not be guessed is derived from it. The first broker that needs it
creates it.
"""

CLUSTER_SECRET = "/kafka-zk/secret"
SIZE_BYTES = 32
