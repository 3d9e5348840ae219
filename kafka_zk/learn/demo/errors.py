"""The demo's error."""


class DemoFailed(Exception):
    """The demo failed; the message is one sentence."""
