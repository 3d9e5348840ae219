"""The demo's error."""


class DemoFailed(Exception):
    """The message is one sentence."""
