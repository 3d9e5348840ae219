"""Administration for threads."""

from collections.abc import Collection
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.acl_admin import AclAdmin
from kafka_zk.clients.admin.admin import Admin
from kafka_zk.clients.admin.group_admin import GroupAdmin
from kafka_zk.clients.admin.scram_admin import ScramAdmin
from kafka_zk.clients.connection.blocking import Blocking, BlockingClient, blocking
from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.reactor_thread import reactor_thread


class BlockingGroupAdmin(Blocking[GroupAdmin]):
    """The ``groups`` of a ``BlockingAdmin``, with the methods of ``GroupAdmin``."""

    list_groups = blocking(GroupAdmin.list_groups)
    describe_groups = blocking(GroupAdmin.describe_groups)
    committed = blocking(GroupAdmin.committed)
    committed_by = blocking(GroupAdmin.committed_by)
    commit = blocking(GroupAdmin.commit)
    delete_groups = blocking(GroupAdmin.delete_groups)
    delete_offsets = blocking(GroupAdmin.delete_offsets)

    def stable_offsets(
        self, group: str, tps: Collection[TopicPartition], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int]:
        """A group's committed offsets, -1 where nothing is committed. Waits while a transaction commits offsets of the
        partitions.

        Raises: KafkaTimeoutError.
        """
        return self._thread.call(self._client.stable_offsets, group, tps, timeout_s=timeout_s)


class BlockingAclAdmin(Blocking[AclAdmin]):
    """The ``acls`` of a ``BlockingAdmin``, with the methods of ``AclAdmin``."""

    list_acls = blocking(AclAdmin.list_acls)
    add_acls = blocking(AclAdmin.add_acls)
    remove_acls = blocking(AclAdmin.remove_acls)


class BlockingScramAdmin(Blocking[ScramAdmin]):
    """The ``scram`` of a ``BlockingAdmin``, with the methods of ``ScramAdmin``."""

    list_users = blocking(ScramAdmin.list_users)
    set_password = blocking(ScramAdmin.set_password)
    remove_passwords = blocking(ScramAdmin.remove_passwords)


class BlockingAdmin(BlockingClient[Admin]):
    """The methods of ``Admin`` for threads; a context manager.

    Raises: ConfigError naming the key and the allowed values; KafkaError on the reactor thread.
    """

    def __init__(self, config: ClientConfig | None = None, **options: Any) -> None:
        thread = reactor_thread()
        admin = Admin(thread.reactor, config, **options)
        super().__init__(thread, admin)
        self.config = admin.config
        self.groups = BlockingGroupAdmin(thread, admin.groups)
        self.acls = BlockingAclAdmin(thread, admin.acls)
        self.scram = BlockingScramAdmin(thread, admin.scram)

    list_topics = blocking(Admin.list_topics)
    describe_topics = blocking(Admin.describe_topics)
    create_topics = blocking(Admin.create_topics)
    create_topic = blocking(Admin.create_topic)
    delete_topics = blocking(Admin.delete_topics)
    create_partitions = blocking(Admin.create_partitions)
    elect_leaders = blocking(Admin.elect_leaders)
    alter_reassignments = blocking(Admin.alter_reassignments)
    list_reassignments = blocking(Admin.list_reassignments)
    try_describe_topic_configs = blocking(Admin.try_describe_topic_configs)
    describe_topic_configs = blocking(Admin.describe_topic_configs)
    describe_broker_configs = blocking(Admin.describe_broker_configs)
    alter_topic_config = blocking(Admin.alter_topic_config)
    alter_broker_config = blocking(Admin.alter_broker_config)
    log_sizes = blocking(Admin.log_sizes)
    try_offsets = blocking(Admin.try_offsets)
    list_offsets = blocking(Admin.list_offsets)
    leader_epochs = blocking(Admin.leader_epochs)
    describe_cluster = blocking(Admin.describe_cluster)
    describe_client_quotas = blocking(Admin.describe_client_quotas)
    alter_client_quotas = blocking(Admin.alter_client_quotas)
