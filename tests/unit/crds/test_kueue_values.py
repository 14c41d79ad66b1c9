from pathlib import Path

import yaml

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.kueue_config import choices, kueue_configuration
from gpustack_ctl.crds.__main__ import main
from gpustack_ctl.crds.kueue_values import files, kueue_values

DEPLOYED = Path(__file__).parents[3] / "deploy"


def test_the_deployed_files_are_what_the_code_says():
    deployed = {file.name: file.read_text() for file in (DEPLOYED / "kueue").iterdir()}
    assert deployed == files(manufacturers()), "run `just generate`"


def test_the_chart_gets_the_whole_configuration():
    values = yaml.safe_load(kueue_values(manufacturers()))
    assert yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"]) == kueue_configuration(
        manufacturers()
    )


def test_without_the_chart_it_is_the_same_configuration():
    assert yaml.safe_load(files(manufacturers())["configuration.yaml"]) == kueue_configuration(manufacturers())


def test_every_reason_is_in_the_file():
    said = " ".join(kueue_values(manufacturers()).replace("#", " ").split())
    assert all(choice.reason in said for choice in choices(manufacturers()))


def test_generating_writes_what_is_deployed(tmp_path: Path):
    main(tmp_path)
    for part in ("crds", "kueue"):
        written = {file.name: file.read_text() for file in (tmp_path / part).iterdir()}
        assert written == {file.name: file.read_text() for file in (DEPLOYED / part).iterdir()}
