"""Errors of embedded processes. Each message is one sentence for the user."""


class EmbeddedError(Exception):
    """``str()`` is the sentence."""


class JavaNotFound(EmbeddedError):
    """The message lists the searched places and what to install."""


class JarsNotFound(EmbeddedError):
    """ZooKeeper's jars are not installed."""


class ProcessFailed(EmbeddedError):
    """A process did not start or ended unexpectedly. The message names its log file and quotes the last line."""


class DataDirInUse(EmbeddedError):
    """Another cluster is running in the data directory."""


class UnusableDataDir(EmbeddedError):
    """The path cannot be written to a configuration file."""
