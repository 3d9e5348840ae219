"""Checks changes to a running broker's listeners (KIP-226). Pure.

A listener can be added, removed and moved. Its keys are set when it is added; later only its stores and connection
limits can change. The inter-broker listener can only be moved, not removed or given another security protocol, because
other brokers could not reach this broker.

Where Kafka has the same rule, the message is also Kafka's. Source: DynamicListenerConfig in DynamicBrokerConfig.scala,
KafkaConfig.validateValues@3.9.
"""

from collections.abc import Collection, Mapping, Sequence
from ipaddress import ip_address

from kafka_zk.broker.config.broker_configs import BROKER_CONFIGS, store_key
from kafka_zk.broker.config.kafka_config import KafkaConfig, Listener
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.security.listener_keys import LISTENER_PREFIX, ListenerKeys, is_read_for_listener

_LIMITS = "max.connection"  # max.connections, max.connection.creation.rate
_JAAS = ".sasl.jaas.config"


def key_of_some_listener(key: str) -> str | None:
    """The key without ``listener.name.<listener>.`` if it can be set with a new listener, otherwise None."""
    if not key.startswith(LISTENER_PREFIX):
        return None
    name = key.split(".", 3)[-1]
    return name if store_key(key) or is_read_for_listener(name) or name.startswith(_LIMITS) else None


def holds_password(key: str) -> bool:
    """True if the value is a JAAS login module, which contains passwords."""
    return key.startswith(LISTENER_PREFIX) and key.endswith(_JAAS)


def check_names(present: KafkaConfig, merged: Mapping[str, str]) -> None:
    """Check the listener names, as Kafka does first. Raises ApiError.

    ``merged``: the whole new configuration.
    """
    text = merged.get("listeners", BROKER_CONFIGS["listeners"].default or "")
    listeners = _names(text)
    advertised = _names(merged.get("advertised.listeners", "")) or listeners
    _require(
        len(set(listeners)) == len(listeners),
        f"Each listener must have a different name, listeners: {text}",
    )
    inter_broker, control_plane = present.inter_broker_listener, present.control_plane_listener
    _require(
        inter_broker in (*advertised, *listeners),
        "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options based "
        f"on currently configured listeners are {','.join(advertised)}",
    )
    _require(
        set(advertised) <= set(listeners),
        "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found "
        f"{','.join(advertised)}. The valid options based on the current configuration are {','.join(listeners)}",
    )
    _require(
        control_plane is None or control_plane in listeners,
        "control.plane.listener.name must be a listener name defined in advertised.listeners. The valid options based "
        f"on currently configured listeners are {','.join(advertised)}",
    )


def check_change(present: KafkaConfig, wanted: KafkaConfig) -> None:
    """Check whether a running broker can change from one configuration to the other. Raises ApiError."""
    _check_ports(wanted.listener_list, wanted.properties.get("listeners", ""))
    for name in sorted(present.listener_names & wanted.listener_names):
        if fixed_keys(present, name) != fixed_keys(wanted, name):
            raise _refused(
                f"Configs cannot be updated dynamically for existing listener ListenerName({name}), restart broker or "
                "create a new listener for update"
            )
        if present.listener_protocols[name] != wanted.listener_protocols[name]:
            raise _refused(f"Security protocol cannot be updated for existing listener ListenerName({name})")
    if present.inter_broker_listener != wanted.inter_broker_listener:
        raise _refused(
            f"listeners: {present.inter_broker_listener} must stay first, because without inter.broker.listener.name "
            "brokers connect to each other through the first listener"
        )


def check_owners(keys: Collection[str], wanted: KafkaConfig) -> None:
    """Check that each of these new keys belongs to an existing listener. Raises ApiError.

    Kafka silently stores keys of listeners that do not exist.
    """
    protocols = {name.lower(): protocol for name, protocol in wanted.listener_protocols.items()}
    for key in keys:
        if key_of_some_listener(key) is None:
            continue
        protocol = protocols.get(key.split(".", 3)[2].lower())
        if store_key(key) and not (protocol or "").endswith("SSL"):
            raise _refused(f"{key}: this broker has no such listener with TLS")
        if protocol is None:
            raise _refused(f"{key}: this broker has no such listener")


def fixed_keys(config: KafkaConfig, listener: str) -> dict[str, str]:
    """The keys of a listener that cannot change while it exists: all except its stores and connection limits."""
    prefix = f"{LISTENER_PREFIX}{listener.lower()}."
    own = ListenerKeys(config.properties, listener).own
    return {
        key: value for key, value in own.items() if store_key(prefix + key) is None and not key.startswith(_LIMITS)
    }


def _check_ports(listeners: Sequence[Listener], text: str) -> None:
    """Check that listeners share a port only if one is bound to an IPv4 and the other to an IPv6 address.

    Source: CoreUtils.listenerListToEndPoints@3.9.
    """
    by_port: dict[int, list[str]] = {}
    for listener in listeners:
        if listener.port:
            by_port.setdefault(listener.port, []).append(listener.host)
    for port, hosts in by_port.items():
        versions = sorted(version for host in hosts if (version := _ip_version(host)) is not None)
        _require(len(hosts) - len(versions) < 2, f"Each listener must have a different port, listeners: {text}")
        if len(hosts) == 1 or (len(hosts) == 2 and versions == [4, 6]):
            continue
        _require(
            len(versions) != 2,
            "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, listeners: "
            f"{text}, port: {port}",
        )
        raise _refused(
            "Each listener must have a different port unless exactly one listener has an IPv4 address and the other "
            f"IPv6 address, listeners: {text}, port: {port}"
        )


def _ip_version(host: str) -> int | None:
    try:
        return ip_address(host).version
    except ValueError:
        return None


def _names(text: str) -> list[str]:
    return [each.partition("://")[0].strip().upper() for each in text.split(",") if each.strip()]


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise _refused(f"requirement failed: {problem}")


def _refused(problem: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, problem)
