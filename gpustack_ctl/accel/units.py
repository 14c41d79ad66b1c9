"""Credit units: the one scale on which every family of request is compared.

A whole accelerator is worth `M` units. M is 2^9·5^5, so one percent, one share and one of 512 visibility tokens are all
whole numbers, and no fold ever needs a fraction. Folds round down: a request never costs more than it says.

Quantities arrive as Kubernetes writes them (`2`, `1Ki`, `50e0`). They are read by value, exactly, and only whole
numbers that fit an int64 come out; everything else is a `QuantityError` with a reason fit for a person.
"""

from __future__ import annotations

import re

M = 1_600_000
SHARES = 10
SHARE_UNITS = M // SHARES
PERCENT_UNITS = M // 100
VISIBILITY_TOKENS = 512

MIB = 1 << 20
INT64_MAX = (1 << 63) - 1


class QuantityError(ValueError):
    """A value that is not a whole number within int64; the text says why."""


def percentage_units(percentage: int) -> int:
    """Units of `percentage` per cent of one accelerator."""
    return percentage * PERCENT_UNITS


def mib_units(mib: int, *, vram_mib: int) -> int:
    """Units of `mib` MiB on an accelerator that has `vram_mib` MiB, rounded down."""
    return mib * M // vram_mib


def saturating_mul(left: int, right: int) -> int:
    """The product of non-negative values, never past int64."""
    return min(left * right, INT64_MAX)


def quantity(value: object) -> int:
    """The whole number that a Kubernetes quantity stands for.

    Accepts what a decoded manifest may hold: a string, an int, or a float as YAML reads one. Sign is kept, so that the
    caller can say what is wrong with a negative count.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError("must be a quantity such as 1 or 1Ki")
    if isinstance(value, int):
        return _within_int64(value)
    text = value if isinstance(value, str) else repr(value)
    if text.isdecimal() and text.isascii() and len(text) < _SURELY_INT64:
        return int(text)
    return _parse(text)


def stands_for(value: object, number: int) -> bool:
    """Whether a quantity says `number`, however it is spelt: the API server rewrites 800000 as 800k."""
    try:
        return quantity(value) == number
    except QuantityError:
        return False


_SURELY_INT64 = 19
_LONGEST_INT64 = 19
_LONGEST_QUANTITY = 512
_QUANTITY = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?[0-9]+)?", re.ASCII)
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def _parse(text: str) -> int:
    if len(text) > _LONGEST_QUANTITY:
        raise QuantityError("is too long to be a quantity")
    match = _QUANTITY.fullmatch(text.strip(" "))  # spaces, the API server drops too
    if match is None or not (match[2] or match[3]):
        raise QuantityError("must be a quantity such as 1 or 1Ki")
    sign, whole, fraction, suffix = match[1], match[2], match[3] or "", match[4] or ""
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return 0
    significant = digits.rstrip("0")
    # value = significant × 10^exponent × 2^binary, with no trailing zero left in `significant`
    exponent = len(digits) - len(significant) - len(fraction)
    binary = _BINARY.get(suffix, 0)
    if not binary:
        exponent += _DECIMAL[suffix] if suffix in _DECIMAL else _exponent(suffix)
    # Judged by length before it is computed: `1e999999999` must cost nothing.
    if len(significant) + exponent > _LONGEST_INT64:
        raise QuantityError("is larger than any count can be")
    magnitude = int(significant) << binary
    if exponent >= 0:
        magnitude *= 10**exponent
    elif exponent < -_LONGEST_QUANTITY or magnitude % 10**-exponent:
        raise QuantityError("must be a whole number")
    else:
        magnitude //= 10**-exponent
    return _within_int64(-magnitude if sign == "-" else magnitude)


def _exponent(suffix: str) -> int:
    """The number after `e`; past a dozen digits only its sign matters."""
    digits = suffix[1:]
    if len(digits) > 12:
        return -(10**12) if digits.startswith("-") else 10**12
    return int(digits)


def _within_int64(number: int) -> int:
    if -INT64_MAX - 1 <= number <= INT64_MAX:
        return number
    raise QuantityError("is larger than any count can be")
