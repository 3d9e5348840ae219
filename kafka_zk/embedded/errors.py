"""Errors of embedded processes. Each message is one sentence for the user."""


class EmbeddedError(Exception):
    """Base of all errors here; ``str()`` is the sentence."""


class JavaNotFound(EmbeddedError):
    """No working Java was found. The message lists the searched places and what to install."""


class JarsNotFound(EmbeddedError):
    """ZooKeeper's jars are not installed."""


class ProcessFailed(EmbeddedError):
    """A process did not start, or ended unexpectedly. The message names its log file and quotes the last line."""


class DataDirInUse(EmbeddedError):
    """Another cluster is running in the data directory."""


class UnusableDataDir(EmbeddedError):
    """The path of the data directory cannot be written to a configuration file."""
