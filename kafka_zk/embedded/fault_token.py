"""The token of a broker's JSON API for faults. It is passed in the environment, which other users cannot read."""

FAULTS_TOKEN_VARIABLE = "KAFKA_ZK_FAULTS_TOKEN"
SHORTEST_TOKEN = 16
FAULTS_FILE = "faults.json"
"""File in a broker's folder with the port and token of its API, readable only by its owner."""


def is_token(text: str) -> bool:
    """True for a token that is long enough and that an HTTP header carries unchanged."""
    return len(text) >= SHORTEST_TOKEN and all("!" <= character <= "~" for character in text)


def new_token() -> str:
    from secrets import token_hex  # imported here, because only brokers with faults need it

    return token_hex(16)
