"""What the Spark jobs raise on purpose; each message is one sentence for the person who runs the job."""


class SourceError(Exception):
    """Base of what the data source and the extraction refuse."""


class OptionError(SourceError, ValueError):
    """An option is unknown, missing or contradicts another one."""


class DataLoss(SourceError):
    """Records of the planned range are not there any more: retention, truncation, a topic that was made anew."""


class FetchFailed(SourceError):
    """Brokers could not be reached or did not answer as needed within the patience that the options give."""
