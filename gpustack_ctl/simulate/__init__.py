"""The fleet simulator: the same gates over nodes that exist on paper only.

No cluster, no clock, no process: a scenario describes nodes, Workloads and events, and simulated time jumps from one to
the next. What a gate answers is asked of `accel`, exactly as the webhook, the admission check and the device plugin
ask it; what is here is what surrounds the gates in a cluster: who arrives when, Kueue's quota and its choice of a node,
who waits, and what was made of the fleet in the end.

`scenario` reads the file, `requests` passes it through gate 1, `quota` is gate 2, `fleet` holds the nodes and asks
gate 3, `index` and `placing` find nodes as Kueue's topology-aware scheduling does, `run` turns time, `results` tells.
"""
