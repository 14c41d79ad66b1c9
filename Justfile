# The project's verbs. `uv run just` lists them; each runs alone on a fresh checkout.

set positional-arguments

export UV_FROZEN := "1"

_default:
    @just --list --unsorted

# The main job: a real cluster from local processes, four simulated cards, Pods through the five gates.
demo *args="--once":
    uv run gpustack-ctl demo "$@"

# Everything CI checks.
test: lint unit oracle integration e2e

# Pure functions and protocol pieces, in seconds.
unit *args:
    uv run pytest tests/unit "$@"

# Gate 3's verdict against an oracle that tries every placement, on tens of thousands of small fleets.
oracle cases="12000":
    ORACLE_CASES="{{cases}}" uv run pytest tests/unit/accel/test_feasibility.py -k oracles

# Against the real API server and Kueue. What fails is asked once more: a bound that a busy machine broke passes then and is
# listed as a rerun; a defect fails again.
integration *args:
    uv run pytest tests/integration --reruns 1 "$@"

# Against the real kubelet and containerd (Linux, root).
e2e *args:
    uv run pytest tests/e2e --reruns 1 "$@"

# Speeds, as a table and build/bench.json; PART is one of core partitions informer webhook gate3 chain fleet agent end-to-end.
bench *parts:
    uv run python -m tests.bench "$@"

# Style, types and the layer contracts.
lint:
    uv run ruff check .
    uv run ruff format --check .
    uv run mypy
    uv run lint-imports

fmt:
    uv run ruff check --fix .
    uv run ruff format .

# Files made from the code: CRDs, Kueue's configuration, policies, rights, the plugin stubs.
generate:
    uv run python -m gpustack_ctl.proto.generate
    uv run python -m gpustack_ctl.crds deploy
    uv run python -m gpustack_ctl.deployment deploy
