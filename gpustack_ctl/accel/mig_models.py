"""NVIDIA's MIG geometries by card model, for inventories that ask for partitions without a card to ask.

A real card tells its own profiles and placements through NVML; this table stands in where there is none, and follows
what `nvidia-smi mig -lgip` and `-lgipp` print on these models and what NVIDIA's MIG User Guide lists under "Supported
MIG Profiles". The MiB are as printed by the driver for A30, A100 and H100; for the H200 they are the profile's eighths
of the card's memory, rounded down to 128 MiB. Profiles with media extensions (`+me`) cannot be written as a resource
key and are left out.

All models but the A30 have one geometry, seven compute slices over eight memory slices, under different names.
"""

from __future__ import annotations

from gpustack_ctl.accel.geometry import Placement, Profile


def mig_profiles(group: str) -> tuple[Profile, ...]:
    """The MIG profiles of a card model by its group id, such as `a100-sxm4-80gb`; none for a model not listed here."""
    words = group.split("-")
    for chip, memory, profiles in _MODELS:
        if chip in words and (not memory or memory in words):
            return profiles
    return ()


def _sevenths(*named: tuple[str, int]) -> tuple[Profile, ...]:
    """Names and MiB on the geometry of seven compute slices over eight memory slices."""
    return tuple(
        Profile(name, mib, compute, memory, len(starts), tuple(Placement(start, memory) for start in starts))
        for (name, mib), (compute, memory, starts) in zip(named, _SEVEN_OVER_EIGHT, strict=True)
    )


_SEVEN_OVER_EIGHT = (
    (1, 1, range(7)),
    (1, 2, (0, 2, 4, 6)),
    (2, 2, (0, 2, 4)),
    (3, 4, (0, 4)),
    (4, 4, (0,)),
    (7, 8, (0,)),
)

_A30 = (
    Profile("1g.6gb", 5952, 1, 1, 4, tuple(Placement(start, 1) for start in range(4))),
    Profile("2g.12gb", 11968, 2, 2, 2, (Placement(0, 2), Placement(2, 2))),
    Profile("4g.24gb", 24000, 4, 4, 1, (Placement(0, 4),)),
)

_A100_40 = _sevenths(
    ("1g.5gb", 4864),
    ("1g.10gb", 9984),
    ("2g.10gb", 9984),
    ("3g.20gb", 20096),
    ("4g.20gb", 20096),
    ("7g.40gb", 40448),
)
_A100_80 = _sevenths(
    ("1g.10gb", 9728),
    ("1g.20gb", 19968),
    ("2g.20gb", 19968),
    ("3g.40gb", 40192),
    ("4g.40gb", 40192),
    ("7g.80gb", 80640),
)
_H100_80 = _sevenths(
    ("1g.10gb", 9984),
    ("1g.20gb", 20096),
    ("2g.20gb", 20096),
    ("3g.40gb", 40448),
    ("4g.40gb", 40448),
    ("7g.80gb", 81152),
)
_H200_141 = _sevenths(
    ("1g.18gb", 17920),
    ("1g.35gb", 35840),
    ("2g.35gb", 35840),
    ("3g.71gb", 71808),
    ("4g.71gb", 71808),
    ("7g.141gb", 143616),
)

#: Chip, memory where the chip comes with several, profiles. The first that a group id names is taken.
_MODELS = (
    ("a30", "", _A30),
    ("a100", "40gb", _A100_40),
    ("a100", "80gb", _A100_80),
    ("h100", "80gb", _H100_80),
    ("h100", "pcie", _H100_80),
    ("h200", "", _H200_141),
)
