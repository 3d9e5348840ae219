"""Every broker-level configuration key of Kafka 3.9 in ZooKeeper mode: type, whether it is dynamic, default.

One key a line: name, type (Kafka's word), ``dynamic`` or ``fixed``, default (absent: null; ``""``: empty). Source:
what a broker of Kafka 3.9.1 answers to DescribeConfigs. What the keys mean here is in ``broker_config_docs``.
"""

from typing import NamedTuple


class BrokerKey(NamedTuple):
    """``default`` is None where Kafka has none or falls back to another key."""

    type: str
    is_dynamic: bool
    default: str | None


_TABLE = """\
advertised.listeners STRING dynamic
alter.config.policy.class.name CLASS fixed
alter.log.dirs.replication.quota.window.num INT fixed 11
alter.log.dirs.replication.quota.window.size.seconds INT fixed 1
authorizer.class.name STRING fixed ""
auto.create.topics.enable BOOLEAN fixed true
auto.include.jmx.reporter BOOLEAN fixed true
auto.leader.rebalance.enable BOOLEAN fixed true
background.threads INT dynamic 10
broker.heartbeat.interval.ms INT fixed 2000
broker.id INT fixed -1
broker.id.generation.enable BOOLEAN fixed true
broker.rack STRING fixed
broker.session.timeout.ms INT fixed 9000
client.quota.callback.class CLASS fixed
compression.gzip.level INT dynamic -1
compression.lz4.level INT dynamic 9
compression.type STRING dynamic producer
compression.zstd.level INT dynamic 3
connection.failed.authentication.delay.ms INT fixed 100
connections.max.idle.ms LONG fixed 600000
connections.max.reauth.ms LONG fixed 0
control.plane.listener.name STRING fixed
controlled.shutdown.enable BOOLEAN fixed true
controlled.shutdown.max.retries INT fixed 3
controlled.shutdown.retry.backoff.ms LONG fixed 5000
controller.listener.names STRING fixed
controller.quorum.append.linger.ms INT fixed 25
controller.quorum.bootstrap.servers LIST fixed ""
controller.quorum.election.backoff.max.ms INT fixed 1000
controller.quorum.election.timeout.ms INT fixed 1000
controller.quorum.fetch.timeout.ms INT fixed 2000
controller.quorum.request.timeout.ms INT fixed 2000
controller.quorum.retry.backoff.ms INT fixed 20
controller.quorum.voters LIST fixed ""
controller.quota.window.num INT fixed 11
controller.quota.window.size.seconds INT fixed 1
controller.socket.timeout.ms INT fixed 30000
create.topic.policy.class.name CLASS fixed
default.replication.factor INT fixed 1
delegation.token.expiry.check.interval.ms LONG fixed 3600000
delegation.token.expiry.time.ms LONG fixed 86400000
delegation.token.master.key PASSWORD fixed
delegation.token.max.lifetime.ms LONG fixed 604800000
delegation.token.secret.key PASSWORD fixed
delete.records.purgatory.purge.interval.requests INT fixed 1
delete.topic.enable BOOLEAN fixed true
early.start.listeners STRING fixed
eligible.leader.replicas.enable BOOLEAN fixed false
fetch.max.bytes INT fixed 57671680
fetch.purgatory.purge.interval.requests INT fixed 1000
group.consumer.assignors LIST fixed org.apache.kafka.coordinator.group.assignor.UniformAssignor,org.apache.kafka.coordinator.group.assignor.RangeAssignor
group.consumer.heartbeat.interval.ms INT fixed 5000
group.consumer.max.heartbeat.interval.ms INT fixed 15000
group.consumer.max.session.timeout.ms INT fixed 60000
group.consumer.max.size INT fixed 2147483647
group.consumer.min.heartbeat.interval.ms INT fixed 5000
group.consumer.min.session.timeout.ms INT fixed 45000
group.consumer.session.timeout.ms INT fixed 45000
group.coordinator.append.linger.ms INT fixed 10
group.coordinator.rebalance.protocols LIST fixed classic
group.coordinator.threads INT fixed 1
group.initial.rebalance.delay.ms INT fixed 3000
group.max.session.timeout.ms INT fixed 1800000
group.max.size INT fixed 2147483647
group.min.session.timeout.ms INT fixed 6000
group.share.delivery.count.limit INT fixed 5
group.share.heartbeat.interval.ms INT fixed 5000
group.share.max.groups SHORT fixed 10
group.share.max.heartbeat.interval.ms INT fixed 15000
group.share.max.record.lock.duration.ms INT fixed 60000
group.share.max.session.timeout.ms INT fixed 60000
group.share.max.size SHORT fixed 200
group.share.min.heartbeat.interval.ms INT fixed 5000
group.share.min.record.lock.duration.ms INT fixed 15000
group.share.min.session.timeout.ms INT fixed 45000
group.share.partition.max.record.locks INT fixed 200
group.share.record.lock.duration.ms INT fixed 30000
group.share.session.timeout.ms INT fixed 45000
initial.broker.registration.timeout.ms INT fixed 60000
inter.broker.listener.name STRING fixed
inter.broker.protocol.version STRING fixed 3.9-IV0
kafka.metrics.polling.interval.secs INT fixed 10
kafka.metrics.reporters LIST fixed ""
leader.imbalance.check.interval.seconds LONG fixed 300
leader.imbalance.per.broker.percentage INT fixed 10
listener.security.protocol.map STRING dynamic SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
listeners STRING dynamic PLAINTEXT://:9092
log.cleaner.backoff.ms LONG dynamic 15000
log.cleaner.dedupe.buffer.size LONG dynamic 134217728
log.cleaner.delete.retention.ms LONG dynamic 86400000
log.cleaner.enable BOOLEAN fixed true
log.cleaner.io.buffer.load.factor DOUBLE dynamic 0.9
log.cleaner.io.buffer.size INT dynamic 524288
log.cleaner.io.max.bytes.per.second DOUBLE dynamic 1.7976931348623157E308
log.cleaner.max.compaction.lag.ms LONG dynamic 9223372036854775807
log.cleaner.min.cleanable.ratio DOUBLE dynamic 0.5
log.cleaner.min.compaction.lag.ms LONG dynamic 0
log.cleaner.threads INT dynamic 1
log.cleanup.policy LIST dynamic delete
log.dir STRING fixed /tmp/kafka-logs
log.dir.failure.timeout.ms LONG fixed 30000
log.dirs STRING fixed
log.flush.interval.messages LONG dynamic 9223372036854775807
log.flush.interval.ms LONG dynamic
log.flush.offset.checkpoint.interval.ms INT fixed 60000
log.flush.scheduler.interval.ms LONG fixed 9223372036854775807
log.flush.start.offset.checkpoint.interval.ms INT fixed 60000
log.index.interval.bytes INT dynamic 4096
log.index.size.max.bytes INT dynamic 10485760
log.local.retention.bytes LONG dynamic -2
log.local.retention.ms LONG dynamic -2
log.message.downconversion.enable BOOLEAN dynamic true
log.message.format.version STRING fixed 3.0-IV1
log.message.timestamp.after.max.ms LONG dynamic 9223372036854775807
log.message.timestamp.before.max.ms LONG dynamic 9223372036854775807
log.message.timestamp.difference.max.ms LONG dynamic 9223372036854775807
log.message.timestamp.type STRING dynamic CreateTime
log.preallocate BOOLEAN dynamic false
log.retention.bytes LONG dynamic -1
log.retention.check.interval.ms LONG fixed 300000
log.retention.hours INT fixed 168
log.retention.minutes INT fixed
log.retention.ms LONG dynamic
log.roll.hours INT fixed 168
log.roll.jitter.hours INT fixed 0
log.roll.jitter.ms LONG dynamic
log.roll.ms LONG dynamic
log.segment.bytes INT dynamic 1073741824
log.segment.delete.delay.ms LONG dynamic 60000
max.connection.creation.rate INT dynamic 2147483647
max.connections INT dynamic 2147483647
max.connections.per.ip INT dynamic 2147483647
max.connections.per.ip.overrides STRING dynamic ""
max.incremental.fetch.session.cache.slots INT fixed 1000
max.request.partition.size.limit INT fixed 2000
message.max.bytes INT dynamic 1048588
metadata.log.dir STRING fixed
metadata.log.max.record.bytes.between.snapshots LONG fixed 20971520
metadata.log.max.snapshot.interval.ms LONG fixed 3600000
metadata.log.segment.bytes INT fixed 1073741824
metadata.log.segment.ms LONG fixed 604800000
metadata.max.idle.interval.ms INT fixed 500
metadata.max.retention.bytes LONG fixed 104857600
metadata.max.retention.ms LONG fixed 604800000
metric.reporters LIST dynamic ""
metrics.num.samples INT fixed 2
metrics.recording.level STRING fixed INFO
metrics.sample.window.ms LONG fixed 30000
min.insync.replicas INT dynamic 1
node.id INT fixed -1
num.io.threads INT dynamic 8
num.network.threads INT dynamic 3
num.partitions INT fixed 1
num.recovery.threads.per.data.dir INT dynamic 1
num.replica.alter.log.dirs.threads INT fixed
num.replica.fetchers INT dynamic 1
offset.metadata.max.bytes INT fixed 4096
offsets.commit.required.acks SHORT fixed -1
offsets.commit.timeout.ms INT fixed 5000
offsets.load.buffer.size INT fixed 5242880
offsets.retention.check.interval.ms LONG fixed 600000
offsets.retention.minutes INT fixed 10080
offsets.topic.compression.codec INT fixed 0
offsets.topic.num.partitions INT fixed 50
offsets.topic.replication.factor SHORT fixed 3
offsets.topic.segment.bytes INT fixed 104857600
password.encoder.cipher.algorithm STRING fixed AES/CBC/PKCS5Padding
password.encoder.iterations INT fixed 4096
password.encoder.key.length INT fixed 128
password.encoder.keyfactory.algorithm STRING fixed
password.encoder.old.secret PASSWORD fixed
password.encoder.secret PASSWORD fixed
principal.builder.class CLASS dynamic org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
process.roles LIST fixed ""
producer.id.expiration.ms INT dynamic 86400000
producer.purgatory.purge.interval.requests INT fixed 1000
queued.max.request.bytes LONG fixed -1
queued.max.requests INT fixed 500
quota.window.num INT fixed 11
quota.window.size.seconds INT fixed 1
remote.fetch.max.wait.ms INT dynamic 500
remote.log.index.file.cache.total.size.bytes LONG dynamic 1073741824
remote.log.manager.copier.thread.pool.size INT fixed -1
remote.log.manager.copy.max.bytes.per.second LONG dynamic 9223372036854775807
remote.log.manager.copy.quota.window.num INT fixed 11
remote.log.manager.copy.quota.window.size.seconds INT fixed 1
remote.log.manager.expiration.thread.pool.size INT fixed -1
remote.log.manager.fetch.max.bytes.per.second LONG dynamic 9223372036854775807
remote.log.manager.fetch.quota.window.num INT fixed 11
remote.log.manager.fetch.quota.window.size.seconds INT fixed 1
remote.log.manager.task.interval.ms LONG fixed 30000
remote.log.manager.thread.pool.size INT fixed 10
remote.log.metadata.custom.metadata.max.bytes INT fixed 128
remote.log.metadata.manager.class.name STRING fixed org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path STRING fixed
remote.log.metadata.manager.impl.prefix STRING fixed rlmm.config.
remote.log.metadata.manager.listener.name STRING fixed
remote.log.reader.max.pending.tasks INT fixed 100
remote.log.reader.threads INT fixed 10
remote.log.storage.manager.class.name STRING fixed
remote.log.storage.manager.class.path STRING fixed
remote.log.storage.manager.impl.prefix STRING fixed rsm.config.
remote.log.storage.system.enable BOOLEAN fixed false
replica.fetch.backoff.ms INT fixed 1000
replica.fetch.max.bytes INT fixed 1048576
replica.fetch.min.bytes INT fixed 1
replica.fetch.response.max.bytes INT fixed 10485760
replica.fetch.wait.max.ms INT fixed 500
replica.high.watermark.checkpoint.interval.ms LONG fixed 5000
replica.lag.time.max.ms LONG fixed 30000
replica.selector.class STRING fixed
replica.socket.receive.buffer.bytes INT fixed 65536
replica.socket.timeout.ms INT fixed 30000
replication.quota.window.num INT fixed 11
replication.quota.window.size.seconds INT fixed 1
request.timeout.ms INT fixed 30000
reserved.broker.max.id INT fixed 1000
sasl.client.callback.handler.class CLASS fixed
sasl.enabled.mechanisms LIST dynamic GSSAPI
sasl.jaas.config PASSWORD dynamic
sasl.kerberos.kinit.cmd STRING dynamic /usr/bin/kinit
sasl.kerberos.min.time.before.relogin LONG dynamic 60000
sasl.kerberos.principal.to.local.rules LIST dynamic DEFAULT
sasl.kerberos.service.name STRING dynamic
sasl.kerberos.ticket.renew.jitter DOUBLE dynamic 0.05
sasl.kerberos.ticket.renew.window.factor DOUBLE dynamic 0.8
sasl.login.callback.handler.class CLASS fixed
sasl.login.class CLASS fixed
sasl.login.connect.timeout.ms INT fixed
sasl.login.read.timeout.ms INT fixed
sasl.login.refresh.buffer.seconds SHORT dynamic 300
sasl.login.refresh.min.period.seconds SHORT dynamic 60
sasl.login.refresh.window.factor DOUBLE dynamic 0.8
sasl.login.refresh.window.jitter DOUBLE dynamic 0.05
sasl.login.retry.backoff.max.ms LONG fixed 10000
sasl.login.retry.backoff.ms LONG fixed 100
sasl.mechanism.controller.protocol STRING fixed GSSAPI
sasl.mechanism.inter.broker.protocol STRING dynamic GSSAPI
sasl.oauthbearer.clock.skew.seconds INT fixed 30
sasl.oauthbearer.expected.audience LIST fixed
sasl.oauthbearer.expected.issuer STRING fixed
sasl.oauthbearer.jwks.endpoint.refresh.ms LONG fixed 3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG fixed 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG fixed 100
sasl.oauthbearer.jwks.endpoint.url STRING fixed
sasl.oauthbearer.scope.claim.name STRING fixed scope
sasl.oauthbearer.sub.claim.name STRING fixed sub
sasl.oauthbearer.token.endpoint.url STRING fixed
sasl.server.callback.handler.class CLASS fixed
sasl.server.max.receive.size INT fixed 524288
security.inter.broker.protocol STRING fixed PLAINTEXT
security.providers STRING fixed
socket.connection.setup.timeout.max.ms LONG fixed 30000
socket.connection.setup.timeout.ms LONG fixed 10000
socket.listen.backlog.size INT fixed 50
socket.receive.buffer.bytes INT fixed 102400
socket.request.max.bytes INT fixed 104857600
socket.send.buffer.bytes INT fixed 102400
ssl.allow.dn.changes BOOLEAN fixed false
ssl.allow.san.changes BOOLEAN fixed false
ssl.cipher.suites LIST dynamic ""
ssl.client.auth STRING dynamic none
ssl.enabled.protocols LIST dynamic TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm STRING dynamic https
ssl.engine.factory.class CLASS dynamic
ssl.key.password PASSWORD dynamic
ssl.keymanager.algorithm STRING dynamic SunX509
ssl.keystore.certificate.chain PASSWORD dynamic
ssl.keystore.key PASSWORD dynamic
ssl.keystore.location STRING dynamic
ssl.keystore.password PASSWORD dynamic
ssl.keystore.type STRING dynamic JKS
ssl.principal.mapping.rules STRING fixed DEFAULT
ssl.protocol STRING dynamic TLSv1.3
ssl.provider STRING dynamic
ssl.secure.random.implementation STRING dynamic
ssl.trustmanager.algorithm STRING dynamic PKIX
ssl.truststore.certificates PASSWORD dynamic
ssl.truststore.location STRING dynamic
ssl.truststore.password PASSWORD dynamic
ssl.truststore.type STRING dynamic JKS
telemetry.max.bytes INT fixed 1048576
transaction.abort.timed.out.transaction.cleanup.interval.ms INT fixed 10000
transaction.max.timeout.ms INT fixed 900000
transaction.partition.verification.enable BOOLEAN dynamic true
transaction.remove.expired.transaction.cleanup.interval.ms INT fixed 3600000
transaction.state.log.load.buffer.size INT fixed 5242880
transaction.state.log.min.isr INT fixed 2
transaction.state.log.num.partitions INT fixed 50
transaction.state.log.replication.factor SHORT fixed 3
transaction.state.log.segment.bytes INT fixed 104857600
transactional.id.expiration.ms INT fixed 604800000
unclean.leader.election.enable BOOLEAN dynamic false
zookeeper.clientCnxnSocket STRING fixed
zookeeper.connect STRING fixed
zookeeper.connection.timeout.ms INT fixed
zookeeper.max.in.flight.requests INT fixed 10
zookeeper.metadata.migration.enable BOOLEAN fixed false
zookeeper.session.timeout.ms INT fixed 18000
zookeeper.set.acl BOOLEAN fixed false
zookeeper.ssl.cipher.suites LIST fixed
zookeeper.ssl.client.enable BOOLEAN fixed false
zookeeper.ssl.crl.enable BOOLEAN fixed false
zookeeper.ssl.enabled.protocols LIST fixed
zookeeper.ssl.endpoint.identification.algorithm STRING fixed HTTPS
zookeeper.ssl.keystore.location STRING fixed
zookeeper.ssl.keystore.password PASSWORD fixed
zookeeper.ssl.keystore.type STRING fixed
zookeeper.ssl.ocsp.enable BOOLEAN fixed false
zookeeper.ssl.protocol STRING fixed TLSv1.2
zookeeper.ssl.truststore.location STRING fixed
zookeeper.ssl.truststore.password PASSWORD fixed
zookeeper.ssl.truststore.type STRING fixed
"""  # noqa: E501


def _parse(line: str) -> tuple[str, BrokerKey]:
    name, kind, mode, *default = line.split(" ", 3)
    return name, BrokerKey(kind, mode == "dynamic", default[0].removeprefix('""') if default else None)


BROKER_CONFIGS: dict[str, BrokerKey] = dict(map(_parse, _TABLE.splitlines()))
