"""Why a fault does not begin; ``str()`` is a sentence for the user."""


class InvalidFault(Exception):
    """The request is wrong, or cannot be carried out in this cluster."""


class WrongBroker(Exception):
    """Another broker of the cluster must carry it out."""
