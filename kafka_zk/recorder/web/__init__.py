"""The flight recorder and its page: the events of a cluster, live and at any earlier moment."""
