"""How a command fails: one sentence on stderr and an exit code that is not 0."""

import click


class CommandFailed(click.ClickException):
    """The command failed; the message is the whole explanation."""

    exit_code = 1


# By name, so that a command need not import packages that it does not use.
_SENTENCES = frozenset(
    f"{module}.{name}"
    for module, names in {
        "kafka_zk.embedded.errors": ("EmbeddedError",),
        "kafka_zk.broker.config.kafka_config": ("InvalidBrokerConfig",),
        "kafka_zk.clients.connection.errors": ("KafkaError", "ConfigError"),
        "kafka_zk.learn.demo.errors": ("DemoFailed",),
        "kafka_zk.learn.lesson.errors": ("LessonFailed",),
        "kafka_zk.native.loading": ("NativeUnusable",),
        "kafka_zk.protocol.errors": ("ApiError", "ProtocolError"),
        "kafka_zk.rebalance.topic_filter": ("InvalidTopicFilter",),
        "kafka_zk.registry.client.errors": ("RegistryError",),
        "kafka_zk.spark_jobs.errors": ("SourceError",),
        "kafka_zk.storage.files.errors": ("StorageError",),
        "builtins": ("OSError",),
    }.items()
    for name in names
)


def sentence(error: Exception) -> str | None:
    """The message for a person; None for an error in our code."""
    if any(f"{kind.__module__}.{kind.__name__}" in _SENTENCES for kind in type(error).__mro__):
        if isinstance(error, OSError) and error.strerror:
            where = f"{error.filename}: " if error.filename else ""
            return f"{where}{error.strerror}"
        return str(error) or type(error).__name__
    return None
