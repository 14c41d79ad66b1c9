"""Write the files of deploy/ that are made from the code: `python -m gpustack_ctl.crds deploy`."""

import sys
from pathlib import Path

from gpustack_ctl import crds
from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.crds import kueue_values


def main(directory: Path) -> None:
    crds.write(directory / "crds")
    kueue = directory / "kueue"
    kueue.mkdir(parents=True, exist_ok=True)
    for name, content in kueue_values.files(manufacturers()).items():
        (kueue / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m gpustack_ctl.crds DIRECTORY")
    main(Path(sys.argv[1]))
