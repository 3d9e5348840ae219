"""The failures of ``kafka-zk extract`` that have exit codes of their own."""

from kafka_zk.cli.terminal.errors import CommandFailed


class GroupIsBusy(CommandFailed):
    """The group has another live member."""

    exit_code = 3


class Overtaken(CommandFailed):
    """Another client has changed the group's offsets during the run."""

    exit_code = 4


class Short(CommandFailed):
    """Requested offsets are behind open transactions."""

    exit_code = 5


_ALL: tuple[type[CommandFailed], ...] = (CommandFailed, GroupIsBusy, Overtaken, Short)
FAILURES = {each.exit_code: each for each in _ALL}
