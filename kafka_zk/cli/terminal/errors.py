"""How a command fails: with one sentence on stderr and a nonzero exit code."""

import click


class CommandFailed(click.ClickException):
    """The message is the whole explanation."""

    exit_code = 1


# Names instead of classes, so that a command imports only packages that it uses.
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
    """The sentence for an expected error; None for a bug."""
    if any(f"{kind.__module__}.{kind.__name__}" in _SENTENCES for kind in type(error).__mro__):
        if isinstance(error, OSError) and error.strerror:
            where = f"{error.filename}: " if error.filename else ""
            return f"{where}{error.strerror}"
        return str(error) or type(error).__name__
    return None
