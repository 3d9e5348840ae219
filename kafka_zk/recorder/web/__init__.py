"""The flight recorder and its page: what happened to a cluster, live and at any moment before."""
