"""librdkafka#5456: a call ignores its time limit and does not return: python librdkafka_5456.py BOOTSTRAP NAME.

``send_offsets_to_transaction`` looks for the coordinator of the group. If three responses in a row say that the
coordinator is not available, librdkafka sends no further request, and nothing checks the time limit. The call continues
only when a connection to some broker opens or closes. The application's fix is a timer that ends the process; a new
process with the same transactional id aborts the open transaction.
"""

import os
import sys
import threading

from confluent_kafka import Consumer, Producer, TopicPartition

TIME_LIMIT_S = 2
END_AFTER_S = 8


def end_process() -> None:
    print("stuck", flush=True)
    os._exit(1)  # only this ends a process whose main thread waits in librdkafka


def main(bootstrap: str, name: str) -> None:
    servers = {"bootstrap.servers": bootstrap, "client.id": f"{name}-client"}
    producer = Producer({**servers, "transactional.id": name})
    producer.init_transactions()
    producer.begin_transaction()
    group = Consumer({"bootstrap.servers": bootstrap, "group.id": name}).consumer_group_metadata()
    timer = threading.Timer(END_AFTER_S, end_process)
    timer.daemon = True
    timer.start()
    producer.send_offsets_to_transaction([TopicPartition(name, 0, 1)], group, TIME_LIMIT_S)
    timer.cancel()
    producer.commit_transaction()
    print("committed", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
