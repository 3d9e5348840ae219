"""Errors of embedded processes. Every message is one sentence for the person at the terminal."""


class EmbeddedError(Exception):
    """Base of all errors here; ``str()`` is the sentence."""


class JavaNotFound(EmbeddedError):
    """No working Java was found; the message says where it was searched and what to install."""


class JarsNotFound(EmbeddedError):
    """ZooKeeper's jars are not installed."""


class ProcessFailed(EmbeddedError):
    """A process did not start, or ended unexpectedly; the message names its log file and quotes its last line."""


class DataDirInUse(EmbeddedError):
    """Another cluster is running in the data directory."""


class UnusableDataDir(EmbeddedError):
    """The path of the data directory cannot be written into a configuration file."""
