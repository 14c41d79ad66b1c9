"""The simulator's promise: 12,500 nodes of 8 cards and a million requests of every family, on one core.

Run as a module it simulates them in a process of its own, whose memory is nobody else's, and prints what that took.
"""

import json
import resource
import subprocess
import sys
import time

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.simulate.reading import read_scenario
from gpustack_ctl.simulate.run import simulate
from gpustack_ctl.simulate.scenario import Scenario


def simulate_million(requests: int = 1_000_000, nodes: int = 12_500) -> Scenario:
    """The scenario; a tenth of the nodes is partitioned."""
    cards = "model: nvidia-a100-sxm4-80gb, count: 8, memoryMib: 81920"
    text = f"""
nodes:
- {{name: gpu, count: {nodes - nodes // 10}, cards: {{{cards}}}}}
- {{name: mig, count: {nodes // 10}, cards: {{{cards}, mig: true}}}}
random:
  {{seed: 1, requests: {requests}, rate: 10, meanDuration: 600,
   mix: {{exclusive: .2, shared: .2, sliced: .5, partitioned: .1}},
   sizes: {{exclusive: {{1: .7, 2: .2, 8: .1}}, shared: {{1: .8, 2: .2}}, sliced: {{10: .3, 25: .3, 50: .4}},
           partitioned: {{1g.10gb: .6, 3g.40gb: .4}}}}}}
"""
    return read_scenario(text, source="simulate_million", table=manufacturers())


def measure_million(requests: int = 1_000_000) -> tuple[float, float]:
    """Processor seconds and MiB of memory of a process that simulates it, from reading to totals."""
    command = [sys.executable, "-m", "tests.bench.simulate_fixture", str(requests)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900)
    measured = json.loads(done.stdout)
    return measured["seconds"], measured["mebibytes"]


def _main(requests: int) -> None:
    simulate(simulate_million(requests), table=manufacturers())
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"seconds": time.process_time(), "mebibytes": used.ru_maxrss / 1024}))


if __name__ == "__main__":
    _main(int(sys.argv[1]))
