"""The code that is common to the keys of all storage plugins."""

PREFIX = "rsm.config."
AIVEN_CLASS = "io.aiven.kafka.tieredstorage.RemoteStorageManager"


class BadRemoteStorage(Exception):
    """The message names the key and the allowed values."""
