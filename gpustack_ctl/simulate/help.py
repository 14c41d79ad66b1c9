"""Every key of a scenario, for `gpustack-ctl simulate --help`; alone, so that other commands load nothing for it."""

SCENARIO_KEYS = """\
SCENARIO is YAML with these keys (seconds are numbers, [x] may be left out):

\b
nodes:                      the fleet
- name: a                   with count they become a-0, a-1, …; without, one node of that name
  [count: 2]
  cards:                    one entry, or a list of them, as in an inventory:
    model: NVIDIA A10G      product name, or accelerator key (nvidia-a10g)
    [manufacturer: nvidia]  where the model does not begin with it
    [count: 1] memoryMib: 24576 [slots: 128] [numa: [0, 0, 1, 1]]
    [mig: false]            true: partitioned, by the model's geometry or by
    [profiles: [{name: 1g.10gb, memoryMib: 9728, placements: [{start: 0, length: 1}]}]]
  [holdings:]               what Pods outside Kueue hold from the start to the end
  - {card: 0, family: sliced, units: 800000, [coresPercentage: 100]}      1600000 units are a card
  - {card: 1, family: exclusive}
  - {card: 2, family: shared, [shares: 1]}                                of the card's ten
  - {card: 3, family: partitioned, profile: 3g.40gb, start: 4}            the card is then partitioned

\b
workloads:                  in this order where they arrive together
- name: w1
  [at: 0]                   when it arrives
  [duration: 60]            how long it runs once admitted; left out: until the end
  [priority: 0]             who waits goes first by priority, then age; nobody is evicted for it
  [pool: nvidia-a10g]       accelerator key; needed where the fleet has several models of the manufacturer
  [node: a-0]               judge it there, as if Kueue had chosen that node
  podSets:
  - [name: main]
    [count: 1]
    containers: [{nvidia.com/gpu.sliced: 1, nvidia.com/gpu.sliced.memory-percentage: 50}]
    [initContainers: […]]

\b
random:                     instead of workloads: drawn, the same for the same seed
  [seed: 1]
  requests: 1000000         how many Workloads
  rate: 10                  arrivals per second on average (exponential gaps)
  meanDuration: 600         seconds (exponential)
  mix: {exclusive: 0.2, shared: 0.2, sliced: 0.5, partitioned: 0.1}       weights by family
  sizes:                    weights by size: cards, shares, percent of a card, profile
    exclusive: {1: 0.7, 2: 0.2, 8: 0.1}
    shared: {1: 0.8, 2: 0.2}
    sliced: {10: 0.3, 25: 0.3, 50: 0.4}
    partitioned: {1g.10gb: 0.6, 3g.40gb: 0.4}
  [podSets: {1: 1}]         weights by number of PodSets
  [pods: {1: 1}]            weights by Pods in a PodSet
  [pool: nvidia-a100-sxm4-80gb]

\b
[events:]
- {at: 30, release: w1}                      the Workload is deleted
- {at: 40, unhealthy: {node: a-0, card: 4}}  who holds the card keeps it, nobody new gets it
- {at: 45, healthy: {node: a-0, card: 4}}
- {at: 50, gone: a-1}                        its Workloads wait again, and start anew when there is room
"""
