"""Deserializers as a consumer's configuration names them."""

from kafka_zk.clients.serdes import Deserializer, serde_named


def deserializer_of(name: str, given: str | Deserializer | None) -> Deserializer | None:
    """Of the option ``name``: an object as it is, or the one that a name of ``SERDES`` means; None for ``bytes``.

    Raises: ConfigError for a name that there is not.
    """
    if not isinstance(given, str):
        return given
    return None if given == "bytes" else serde_named(name.replace("_", "."), given).deserializer
