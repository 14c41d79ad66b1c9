"""Write the files of deploy/ that say what is allowed: `python -m gpustack_ctl.deployment deploy`."""

import sys
from pathlib import Path

from gpustack_ctl.deployment.files import files


def main(directory: Path) -> None:
    for name, content in files().items():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m gpustack_ctl.deployment DIRECTORY")
    main(Path(sys.argv[1]))
