"""The one door to Kubernetes: client, informers with indexes, work queues, apply, events, leases.

Everything a role knows of the cluster passes through here. Objects stay plain dicts as the API server sent them;
whoever needs a domain value builds it at its own edge.
"""
