"""Why an extraction did not happen; each is one sentence; exit codes are in ``kafka_zk/cli/spark/extract.py``."""

from kafka_zk.spark_jobs.errors import SourceError


class ExtractionFailed(SourceError):
    """The extraction could not be done; what is left of it is finished or dropped by the next run."""


class WronglyAsked(ExtractionFailed):
    """Something that is asked for cannot be had: a schema, a column, a format, a target; nothing was done."""


class Undecodable(ExtractionFailed):
    """Values cannot be decoded, more of them than was allowed: nothing was published and the offsets have not moved."""


class JavaDied(ExtractionFailed):
    """The Java process of Spark's driver ended in the middle: killed, or out of memory."""


class ZooKeeperLost(ExtractionFailed):
    """The connection to ZooKeeper broke at a moment when the run could not wait for it to come back."""


class GroupBusy(ExtractionFailed):
    """Another live member is in the group, or owns one of the partitions."""


class ForeignCommit(ExtractionFailed):
    """Somebody else moved the group's offsets meanwhile: nothing was published, the staging folder is gone."""
