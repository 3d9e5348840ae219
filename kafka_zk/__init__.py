"""Apache Kafka as it was while ZooKeeper held it together, in Python."""

__version__ = "0.1.0"
