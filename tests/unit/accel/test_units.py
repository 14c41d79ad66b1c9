"""The fold from percentages and MiB into units, and quantities read by value."""

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpustack_ctl.accel.units import (
    INT64_MAX,
    PERCENT_UNITS,
    SHARE_UNITS,
    SHARES,
    VISIBILITY_TOKENS,
    M,
    QuantityError,
    mib_units,
    percentage_units,
    quantity,
    saturating_mul,
    stands_for,
)


def test_one_accelerator_divides_evenly_by_percents_shares_and_visibility_tokens() -> None:
    assert M == 2**9 * 5**5
    assert PERCENT_UNITS * 100 == M
    assert SHARE_UNITS * SHARES == M
    assert M % VISIBILITY_TOKENS == 0


@pytest.mark.parametrize(("percentage", "units"), [(1, 16_000), (30, 480_000), (50, 800_000), (100, M)])
def test_a_percentage_folds_to_its_share_of_m(percentage: int, units: int) -> None:
    assert percentage_units(percentage) == units


@pytest.mark.parametrize(
    ("mib", "vram", "units"),
    [
        (12_288, 24_576, 800_000),
        (24_576, 24_576, M),
        (1, 24_576, 65),  # 65.1 rounded down
        (9_728, 81_920, 190_000),
        (1, 81_920, 19),
    ],
)
def test_mib_fold_to_their_part_of_the_vram_rounded_down(mib: int, vram: int, units: int) -> None:
    assert mib_units(mib, vram_mib=vram) == units


@given(vram=st.integers(1, 1 << 20), data=st.data())
def test_mib_up_to_the_vram_never_fold_above_m(vram: int, data: st.DataObject) -> None:
    mib = data.draw(st.integers(1, vram))
    assert 0 <= mib_units(mib, vram_mib=vram) <= M
    assert mib_units(vram, vram_mib=vram) == M


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("+2", 2),
        ("-1", -1),
        ("0", 0),
        ("1Ki", 1024),
        ("50e0", 50),
        ("5e1", 50),
        ("500e-1", 50),
        ("0.5k", 500),
        ("1.5Ki", 1536),
        ("1000m", 1),
        ("2000000u", 2),
        ("3000000000n", 3),
        ("1E", 10**18),
        ("1E1", 10),
        ("7Ei", 7 << 60),
        (".5Ki", 512),
        ("1.", 1),
        ("800k", 800_000),
        (" 1 ", 1),
        ("0e999999999999999999", 0),
        ("0" * 400 + "7", 7),
        (str(INT64_MAX), INT64_MAX),
        (str(-INT64_MAX - 1), -INT64_MAX - 1),
        (50, 50),
        (50.0, 50),
        (1e3, 1000),
    ],
)
def test_a_quantity_is_read_by_value(text: object, value: int) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize("text", ["0.5", "100m", "1e-1", "1.5", "1n", "1e-999999999999", 0.5])
def test_a_fraction_is_refused(text: object) -> None:
    with pytest.raises(QuantityError, match="whole number"):
        quantity(text)


@pytest.mark.parametrize("text", ["1e30", "8Ei", str(INT64_MAX + 1), "1e999999999999", "9" * 400, 10**30, 1e300])
def test_what_no_int64_holds_is_refused(text: object) -> None:
    with pytest.raises(QuantityError, match="larger"):
        quantity(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ".",
        "-",
        "one",
        "0x10",
        "1_000",
        "1KiB",
        "1ki",
        "1e",
        "e3",
        "1.2.3",
        "--1",
        "١",
        "NaN",
    ],
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        quantity(text)


@pytest.mark.parametrize("value", [None, True, [], {}, b"1", float("nan"), float("inf")])
def test_other_json_values_are_no_quantities(value: object) -> None:
    with pytest.raises(QuantityError):
        quantity(value)


def test_a_megabyte_of_digits_is_refused_without_being_computed() -> None:
    with pytest.raises(QuantityError):
        quantity("9" * (1 << 20))


_SUFFIXES = {
    **{
        name: Fraction(1 << bits) for name, bits in {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}.items()
    },
    **{
        name: Fraction(10) ** power
        for name, power in {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}.items()
    },
}


@st.composite
def _quantities(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A quantity as text, with its exact value worked out another way."""
    sign = draw(st.sampled_from(["", "+", "-"]))
    whole, fraction = draw(st.text("0123456789", max_size=22)), draw(st.text("0123456789", max_size=12))
    mantissa = f"{whole}.{fraction}" if fraction or not whole else whole
    assume(mantissa != ".")
    if draw(st.booleans()):
        exponent = draw(st.integers(-25, 25))
        suffix, factor = f"{draw(st.sampled_from('eE'))}{exponent}", Fraction(10) ** exponent
    else:
        suffix = draw(st.sampled_from(sorted(_SUFFIXES)))
        factor = _SUFFIXES[suffix]
    value = Fraction(mantissa) * factor
    return sign + mantissa + suffix, -value if sign == "-" else value


@given(_quantities())
def test_quantities_agree_with_exact_fractions(case: tuple[str, Fraction]) -> None:
    text, value = case
    if value.denominator == 1 and -INT64_MAX - 1 <= value <= INT64_MAX:
        assert quantity(text) == value
    else:
        with pytest.raises(QuantityError):
            quantity(text)


@given(st.text())
def test_any_text_is_a_number_or_a_quantity_error(text: str) -> None:
    try:
        assert -INT64_MAX - 1 <= quantity(text) <= INT64_MAX
    except QuantityError as error:
        assert str(error)


def test_one_number_has_several_spellings() -> None:
    assert stands_for("800k", 800_000)
    assert stands_for("800000", 800_000)
    assert not stands_for("800m", 800)
    assert not stands_for(None, 0)


def test_products_stop_at_int64() -> None:
    assert saturating_mul(INT64_MAX, 2) == INT64_MAX
    assert saturating_mul(3, M) == 3 * M
