"""The daily work of an operator that the page can do, with the clients and rules of the command line."""

from kafka_zk.cli.page.connection import PageConnection
from kafka_zk.cli.page.group_resets import GroupResets
from kafka_zk.cli.page.topic_configs import TopicConfigs
from kafka_zk.cli.page.topic_messages import TopicMessages
from kafka_zk.recorder.web.operations import Operations


def page_operations(zookeeper: str, *, may_act: bool, shows_values: bool) -> Operations:
    """For the current command, on its thread.

    Args:
        may_act: False if the page may only read.
        shows_values: the page may show the keys and values of records.
    """
    connection = PageConnection(zookeeper)
    configs, resets, messages = TopicConfigs(connection), GroupResets(connection), TopicMessages(connection)
    return Operations(
        {"configs": configs.show},
        {**resets.acts(), **configs.acts(), **messages.acts()} if may_act else {},
        {"messages": messages.show} if shows_values else {},
    )
