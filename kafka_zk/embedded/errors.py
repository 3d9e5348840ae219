"""What can go wrong with embedded processes. Every message is one sentence for the person at the terminal."""


class EmbeddedError(Exception):
    """Base of all; ``str()`` is the sentence."""


class JavaNotFound(EmbeddedError):
    """No Java that runs; the message says where was looked and what to install."""


class JarsNotFound(EmbeddedError):
    """ZooKeeper's jars are not installed."""


class ProcessFailed(EmbeddedError):
    """A process did not start, or ended by itself; the message names its log file and quotes its last line."""


class DataDirInUse(EmbeddedError):
    """Another cluster runs in the data directory."""


class UnusableDataDir(EmbeddedError):
    """The path of the data directory cannot be written into a configuration file."""
