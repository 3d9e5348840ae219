from tests.kafka_zk.network.conftest import make_server, reactor  # noqa: F401  (fixtures)
