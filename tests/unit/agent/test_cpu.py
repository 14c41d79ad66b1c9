"""Which CPU a node has."""

import pytest

from gpustack_ctl.agent.cpu import cpu_of

NODE = {"metadata": {"name": "n", "labels": {}}, "status": {"capacity": {"cpu": "48"}}}


@pytest.mark.parametrize(
    ("vendor", "model", "key"),
    [
        ("AuthenticAMD", "AMD EPYC 7R32", "amd-epyc-7r32"),
        ("AuthenticAMD", "AMD EPYC 7763 64-Core Processor", "amd-epyc-7763"),
        ("GenuineIntel", "Intel(R) Xeon(R) Platinum 8275CL CPU @ 3.00GHz", "intel-xeon-platinum-8275cl"),
        ("GenuineIntel", "Intel(R) Xeon(R) Processor", "intel-xeon-processor"),
        ("", "", "generic"),
        ("GenuineIntel", "", "generic"),
    ],
)
def test_the_key_is_maker_and_product_without_decoration(tmp_path, vendor, model, key):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\nmodel name\t: {model}\n\nprocessor\t: 1\n")

    cpu = cpu_of(NODE, cpuinfo=cpuinfo)

    assert (cpu.key, cpu.cores) == (key, 48)


def test_the_maker_that_node_feature_discovery_names_is_believed(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("model name\t: EPYC 7R32\n")
    node = {**NODE, "metadata": {"name": "n", "labels": {"feature.node.kubernetes.io/cpu-model.vendor_id": "AMD"}}}

    assert cpu_of(node, cpuinfo=cpuinfo).key == "amd-epyc-7r32"


def test_without_cpuinfo_the_cpu_is_generic(tmp_path):
    assert cpu_of(NODE, cpuinfo=tmp_path / "none").key == "generic"
