"""What the broker-level configuration keys mean in this broker, one sentence each, for DescribeConfigs."""

from storage.log_config import TOPIC_CONFIGS

_UNUSED = "A key of Apache Kafka that is kept and shown; this broker does not use it."

_DOCUMENTATION = {
    "advertised.listeners": "Addresses that clients and other brokers are told; those not named are told as bound.",
    "auto.create.topics.enable": "Whether asking for the metadata of an unknown topic creates it.",
    "broker.id": "Number of this broker; -1 takes the stored one or a new one from ZooKeeper.",
    "broker.id.generation.enable": "Whether a broker without broker.id gets one from ZooKeeper.",
    "broker.rack": "Rack of this broker, told to clients.",
    "connections.max.idle.ms": "A connection without a request for this long is closed.",
    "controlled.shutdown.enable": "Whether a stopping broker first hands its leaderships over.",
    "controlled.shutdown.max.retries": "How often handing over is tried.",
    "controlled.shutdown.retry.backoff.ms": "Wait between two tries of handing over.",
    "controller.socket.timeout.ms": "How long the controller waits for a broker.",
    "default.replication.factor": "Replicas of a topic that is created without a number of them.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "fetch.max.bytes": "The most bytes that one fetch request is answered with.",
    "inter.broker.listener.name": "Listener that brokers use among themselves.",
    "listener.security.protocol.map": "Security protocol of each listener name.",
    "listeners": "Where the broker listens: NAME://host:port, an empty host meaning all interfaces.",
    "log.dir": "Log directory, used where log.dirs is not set.",
    "log.dirs": "Log directories; a new partition goes to the one with the fewest.",
    "log.flush.offset.checkpoint.interval.ms": "How often recovery points are written.",
    "log.flush.scheduler.interval.ms": "How often it is looked for logs that have to be flushed.",
    "log.retention.check.interval.ms": "How often it is looked for segments that may go.",
    "log.retention.hours": "log.retention.ms in hours; used where neither ms nor minutes are set.",
    "log.retention.minutes": "log.retention.ms in minutes; used where ms are not set.",
    "log.roll.hours": "log.roll.ms in hours; used where ms are not set.",
    "log.roll.jitter.hours": "log.roll.jitter.ms in hours; used where ms are not set.",
    "max.connections": "Connections that the broker has at most; when it is full it does not accept.",
    "max.connections.per.ip": "Connections from one address at most; more are closed at once.",
    "max.connections.per.ip.overrides": "max.connections.per.ip of single addresses: address:count,...",
    "max.incremental.fetch.session.cache.slots": "Incremental fetch sessions that are remembered.",
    "num.partitions": "Partitions of a topic that is created without a number of them.",
    "producer.id.expiration.ms": "How long a producer id is remembered after its last batch.",
    "request.timeout.ms": "How long the broker waits for the answer to its own requests.",
    "reserved.broker.max.id": "Largest configured broker.id; generated ones are larger.",
    "socket.listen.backlog.size": "Connections that may wait to be accepted.",
    "socket.request.max.bytes": "Largest request; a connection that sends a larger one is closed.",
    "zookeeper.connect": "ZooKeeper servers and chroot: host:port,host:port/chroot.",
    "zookeeper.connection.timeout.ms": "How long the first connection to ZooKeeper may take.",
    "zookeeper.set.acl": "Whether only this identity may change the znodes that the broker creates.",
    "zookeeper.ssl.cipher.suites": "Cipher suites for TLS 1.2 towards ZooKeeper, by OpenSSL's names.",
    "zookeeper.ssl.client.enable": "Whether to connect to ZooKeeper over TLS.",
    "zookeeper.ssl.enabled.protocols": "TLS versions for ZooKeeper; zookeeper.ssl.protocol if not set.",
    "zookeeper.ssl.endpoint.identification.algorithm": "Empty: the host name in a certificate is not checked.",
    "zookeeper.ssl.keystore.location": "PEM file with the key and the certificates that are shown to ZooKeeper.",
    "zookeeper.ssl.keystore.password": "Password of the key in zookeeper.ssl.keystore.location.",
    "zookeeper.ssl.protocol": "The only TLS version for ZooKeeper; 1.2 and later if not set.",
    "zookeeper.ssl.truststore.location": "PEM file with the authorities that sign ZooKeeper's certificates.",
    "zookeeper.session.timeout.ms": "How long ZooKeeper waits for a silent broker before it counts as gone.",
}

_OF_TOPICS = {
    definition.server_key: f"Default of the topic key {key}. {definition.documentation}"
    for key, definition in TOPIC_CONFIGS.items()
    if definition.server_key
}


def documentation(key: str) -> str:
    """One sentence about a broker-level key, known or not."""
    return _DOCUMENTATION.get(key) or _OF_TOPICS.get(key) or _UNUSED
