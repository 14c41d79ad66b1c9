"""`just bench [PART …]`: measure, print one table, write build/bench.json.

Each `bench_<part>.py` beside this file measures one part. pytest runs them, for its fixtures; nothing here asserts a
time: a goal that was missed is a row that says so.
"""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PARTS = ("core", "partitions", "informer", "webhook", "gate3", "chain", "fleet", "agent", "end-to-end")


def main(chosen: list[str]) -> int:
    unknown = [part for part in chosen if part not in PARTS]
    if unknown:
        print(f"bench: no part {', '.join(unknown)}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    files = [HERE / f"bench_{part.replace('-', '_')}.py" for part in chosen or PARTS]
    present = [str(file) for file in files if file.exists()]
    return int(pytest.main([*_COLLECT, *_TIMED, *present]))


_COLLECT = ("-o", "python_files=bench_*.py", "-o", "python_functions=bench_*", "-q", "--no-header")
_TIMED = ("--benchmark-quiet", "--benchmark-timer=time.process_time")
"""Pure code is timed by the processor time it takes, which a busy machine does not change much."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
