"""Outcomes of ZooKeeper operations.

Callers expect and handle ``NodeExists``, ``NoNode``, ``BadVersion`` and ``NotEmpty``. After ``ConnectionLoss``, the
outcome is unknown: read again and compare. After ``SessionLost``, all ephemerals and watches are gone.
"""


class RegistryError(Exception):
    """Base class of these errors; the message names the path."""


class NodeExists(RegistryError):
    """The znode exists already."""


class NoNode(RegistryError):
    """The znode, or a new one's parent, does not exist."""


class BadVersion(RegistryError):
    """The znode's version is not the expected one."""


class NotEmpty(RegistryError):
    """The znode to delete has children."""


class NoChildrenForEphemerals(RegistryError):
    """The parent of the znode to create is ephemeral."""


class NoAuth(RegistryError):
    """The znode's ACL forbids the operation to this client."""


class AuthenticationFailed(RegistryError):
    """ZooKeeper rejected the client, or the client rejected ZooKeeper. The message is for the user."""


class InvalidSecurity(RegistryError):
    """A key, certificate or TLS setting for ZooKeeper is unusable. The message names the unusable file or value."""


class Unimplemented(RegistryError):
    """The server is too old and ignored the request."""


class RequestTooLarge(RegistryError):
    """The request exceeds ZooKeeper's packet limit (1 MB) and was not sent."""


class ConnectionTimeout(RegistryError):
    """No server responded within the timeout. The message is for the user."""


class ConnectionLoss(RegistryError):
    """The connection broke before the response, so the operation may have happened."""


class SessionLost(RegistryError):
    """The session expired or was closed, so its ephemerals and watches are gone."""


class MultiFailed(RegistryError):
    """A multi was rolled back. ``index``: the position of the failed operation. ``cause``: its error."""

    def __init__(self, index: int, cause: RegistryError) -> None:
        super().__init__(f"operation {index} of the multi failed: {cause!r}")
        self.index = index
        self.cause = cause


class InvalidZnode(RegistryError):
    """A znode's data cannot be parsed."""


class InvalidConnectString(RegistryError):
    """A ZooKeeper connection string does not have the form ``host:port[,host:port…][/chroot]``."""


class DuplicateBrokerId(RegistryError):
    """Another live broker has the id; ``host``: None if unknown."""

    def __init__(self, broker_id: int, host: str | None, port: int) -> None:
        super().__init__(
            f"broker id {broker_id} is already registered by a live broker at {host or 'an unknown host'}:{port}"
        )
        self.broker_id = broker_id
        self.host = host
        self.port = port


class DuplicateConsumerId(RegistryError):
    """Another live session has the consumer id."""

    def __init__(self, group: str, consumer_id: str) -> None:
        super().__init__(f"consumer id {consumer_id} is already registered in group {group} by another live consumer")


class FencedInstanceId(RegistryError):
    """Another live session has a static member's instance id."""

    def __init__(self, group: str, instance_id: str) -> None:
        super().__init__(
            f"instance id {instance_id} of group {group} is held by another live consumer; every instance needs its own"
        )


class GroupNotEmpty(RegistryError):
    """The group has live members, so only they can change or delete its offsets."""

    def __init__(self, group: str, members: list[str]) -> None:
        super().__init__(f"group {group} has {len(members)} live members ({', '.join(members)}); stop them first")


class ControllerMoved(RegistryError):
    """Another controller was elected. The multi wrote nothing, and the caller must resign."""


class ControlledByKRaft(RegistryError):
    """A KRaft controller has taken ``/controller``, so the cluster is migrating to KRaft. This broker cannot take part
    in the migration."""

    def __init__(self, node_id: int) -> None:
        super().__init__(
            f"the KRaft controller {node_id} has taken /controller: this cluster is migrating to KRaft, in which "
            "brokers of kafka-zk cannot take part"
        )


class TooManyProducerIds(RegistryError):
    """All producer ids (63 bits) have been assigned."""
