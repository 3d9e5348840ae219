"""Watch brokers start and stop: python examples/watch_brokers.py [ZOOKEEPER] [SECONDS].

A watch fires once and reports only that something changed. ``BrokerRegistry.watch`` then reads again and sets the next
watch in the same call. Start or kill a broker meanwhile.
"""

import sys
import time

from kafka_zk.registry import BrokerRegistry, KazooBlockingClient, LiveBrokers


def main(zookeeper: str = "127.0.0.1:2181", seconds: str = "60") -> None:
    known: LiveBrokers = {}

    def changed(live: LiveBrokers) -> None:
        for broker_id in sorted(live.keys() | known.keys()):
            if broker_id not in live:
                print(f"broker {broker_id} left", flush=True)
            elif broker_id not in known or known[broker_id][1] != live[broker_id][1]:
                info, epoch = live[broker_id]
                print(f"broker {broker_id} is at {info.host}:{info.port}, epoch {epoch}", flush=True)
        known.clear()
        known.update(live)

    with KazooBlockingClient(zookeeper) as client:
        watcher = BrokerRegistry(client).watch(changed)
        end_s = time.monotonic() + float(seconds)
        while time.monotonic() < end_s:
            client.process(100)  # callbacks run in this call
        watcher.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
