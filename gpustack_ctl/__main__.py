"""`python -m gpustack_ctl`: the same commands, for where the console script is not on PATH."""

from gpustack_ctl.cli import main

main()
