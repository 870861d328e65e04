"""The values of selectors and how two of them compare.

    property (text) · string · TRUE, FALSE · 32-bit integer · 64-bit integer · double · null

A property is text; next to a number it is read as a number of that very type, and text that is none ends
the evaluation: such a message does not match, whatever else the expression says. The types and their odd
corners (a boolean on the left of text, NaN, the sign of zero) are Java's, as Apache 5.5.0 evaluates them:
tests/golden/sql92.json holds what it answers.
"""

from __future__ import annotations

import math
import re
from typing import Final


class Long(int):
    """A 64-bit integer; a plain int is one of 32 bits."""


Value = str | bool | int | float | None
"""None is SQL's null. A 64-bit integer is a Long."""

INT_MIN: Final = -(2**31)
INT_MAX: Final = 2**31 - 1
LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1
LONG_DIGITS_MAX: Final = 19

# Neither pattern can match one text in two ways: reading is linear in its length.
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?")
_HEX: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?"
)
_NAMED: Final = {
    f"{sign}{name}": float(f"{sign}{number}")
    for sign in ("", "+", "-")
    for name, number in (("NaN", "nan"), ("Infinity", "inf"))
}
_JAVA_BLANKS: Final = "".join(map(chr, range(33)))


class NoMatch(Exception):
    """Two values that cannot be compared: the message does not match."""


def read_integer(text: str, low: int, high: int) -> int:
    """Return the whole number that a text is; raises NoMatch when it is none between the limits."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isdecimal():
        raise NoMatch
    # Java reads digits of any script, but only of the first plane.
    significant = digits.lstrip("0")
    if len(significant) > LONG_DIGITS_MAX or max(digits) > "\uffff":
        raise NoMatch
    number = int(significant or "0")
    if text[0] == "-":
        number = -number
    if not low <= number <= high:
        raise NoMatch
    return number


def read_double(text: str) -> float:
    """Return the number that Java's Double.valueOf makes of a text; raises NoMatch when it is none."""
    text = text.strip(_JAVA_BLANKS)
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    named = _NAMED.get(text)
    if named is not None:
        return named
    if _HEX.fullmatch(text):
        mantissa, mark, exponent = text.replace("P", "p").partition("p")
        exponent = exponent.rstrip("fFdD")
        try:
            # A larger exponent than this is infinite or zero, whatever stands before it.
            power = max(-(10**6), min(10**6, int(exponent[:12])))
            return float.fromhex(f"{mantissa}{mark}{power}")
        except OverflowError:
            return -math.inf if text[0] == "-" else math.inf
    raise NoMatch


def compare(left: Value, right: Value) -> int:
    """Return how two values that are there stand to each other: below 0, 0 or above 0.

    Raises NoMatch where Java cannot compare them.
    """
    left_type, right_type = type(left), type(right)
    if left_type is not right_type:
        if left_type is bool:
            if right_type is str:
                raise NoMatch
            return -1
        if isinstance(left, str):
            left = _read_as(left, right_type)
        elif isinstance(right, str):
            right = _read_as(right, left_type)
        elif right_type is bool:
            return -1
    if isinstance(left, float) or isinstance(right, float):
        assert left is not None and right is not None
        return _compare_doubles(float(left), float(right))
    return (left > right) - (left < right)  # type: ignore[operator]  # of one type by now


def compare_ordered(left: Value, right: Value) -> int:
    """The same for < and >, where two texts are compared as numbers."""
    if isinstance(left, str) and isinstance(right, str):
        return _compare_doubles(read_double(left), read_double(right))
    return compare(left, right)


def _read_as(text: str, kind: type) -> Value:
    """Return a text as the type that it is compared with."""
    if kind is bool:
        return text.lower() == "true"
    if kind is int:
        return read_integer(text, INT_MIN, INT_MAX)
    if kind is Long:
        return Long(read_integer(text, LONG_MIN, LONG_MAX))
    return read_double(text)


def _compare_doubles(left: float, right: float) -> int:
    """Compare as Java's Double does: NaN is the greatest and equal to itself, -0.0 is below 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right and left != 0.0:
        return 0
    return (_rank(left) > _rank(right)) - (_rank(left) < _rank(right))


def _rank(number: float) -> int:
    if math.isnan(number):
        return 2
    return 0 if math.copysign(1.0, number) < 0 else 1
