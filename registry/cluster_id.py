"""The cluster's id: made by its first broker, never changed.

Source: KafkaZkClient.createOrGetClusterId in Kafka 3.9; KIP-78.
"""

import base64
import uuid

from registry.client import Create, RegistryClient
from registry.errors import NodeExists, NoNode
from registry.pipeline import create_with_parents
from registry.znodes import cluster_id as znodes


def random_id() -> str:
    """A new id as Kafka's Uuid prints it: 22 characters of url-safe base64, never with a leading dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


async def get_or_create(client: RegistryClient, proposed: str | None = None) -> str:
    """The cluster's id; made (as ``proposed``, or at random) by whoever comes first. Raises InvalidZnode."""
    while True:
        try:
            data, _ = await client.get(znodes.CLUSTER_ID)
            return znodes.decode(data)
        except NoNode:
            try:
                await create_with_parents(client, Create(znodes.CLUSTER_ID, znodes.encode(proposed or random_id())))
            except NodeExists:
                continue  # another broker was faster: read its id
