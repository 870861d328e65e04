"""The tolerant reader behind `loose_json`: text in, values or an error with its position out.

Tried only where strict JSON fails, so it is written for clearness and for bounds. Beyond JSON it takes
what Java peers write or accept: keys that are raw numbers, names, objects or arrays, single quotes,
repeated and trailing commas, raw control characters, Java's escapes. It does not follow `$ref`.

    value   ::= object | array | string | number | true | false | null
    object  ::= '{' ','* (key ':' value ','+)* '}'        the last commas may be missing
    key     ::= string | number | name | object | array | true | false | null
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

DEPTH_MAX = 100
DIGITS_MAX = 400  # of one number; Python's own limit lies above, Java's longs far below

_SPACE = re.compile(r"[ \t\r\n\f\b\ufeff]*")
_COMMAS = re.compile(r"[ \t\r\n\f\b,]*")
_NUMBER = re.compile(r"-?\d++(\.\d++)?+([eE][+-]?\d++)?+")
# Offset tables are long runs of these: one match for each pair makes reading five times as fast.
_NUMBER_PAIR = re.compile(
    r"[ \t\r\n,]*+(-?[0-9]{1,18}+)[ \t\r\n]*+:[ \t\r\n]*+(-?[0-9]{1,18}+)[ \t\r\n]*+(?=[,}])"
)
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*+")
# Possessive, so that a text without its closing quote fails in one pass.
_QUOTED = {
    '"': re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL),
    "'": re.compile(r"'([^'\\]*+(?:\\.[^'\\]*+)*+)'", re.DOTALL),
}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_SHORT = {
    **{letter: letter for letter in "\"'\\/"},
    "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    **{str(digit): chr(digit) for digit in range(8)},
}  # fmt: skip
_HALF = re.compile("[\ud800-\udfff]")
_WORDS: dict[str, object] = {"true": True, "false": False, "null": None}


class LooseJsonError(ValueError):
    """The text is not JSON, not even loosely; `position` counts characters from 0."""

    def __init__(self, what: str, position: int) -> None:
        super().__init__(f"{what} at position {position}")
        self.position = position


class ObjectKey(Mapping[str, object]):
    """A JSON object in the place of a key: read like a mapping, compared and hashed by its content.

    Lists inside are tuples and objects inside are ObjectKeys, so that all of it can be hashed.
    """

    __slots__ = ("_hash", "_members")

    def __init__(self, members: Mapping[str, object]) -> None:
        self._members = {name: _frozen(value) for name, value in members.items()}
        self._hash = hash(frozenset(self._members.items()))

    def __getitem__(self, name: str) -> object:
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectKey) and self._members == other._members

    def __repr__(self) -> str:
        return f"ObjectKey({self._members!r})"


def _frozen(value: object) -> object:
    if isinstance(value, dict):
        return ObjectKey(value)
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value


def read(text: str) -> object:
    """Return the one value of the text; raises LooseJsonError."""
    reader = _Reader(text)
    value = reader.value(0)
    if reader.skip(_SPACE) < len(text):
        raise LooseJsonError("something follows the value", reader.at)
    return value


class _Reader:
    """A place in a text that moves forward."""

    __slots__ = ("at", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self, what: re.Pattern[str]) -> int:
        found = what.match(self.text, self.at)
        assert found is not None
        self.at = found.end()
        return self.at

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def value(self, depth: int) -> object:
        if depth > DEPTH_MAX:
            raise LooseJsonError(f"nested deeper than {DEPTH_MAX}", self.at)
        self.skip(_SPACE)
        first = self.peek()
        if first == "{":
            return self.members(depth)
        if first == "[":
            return self.items(depth)
        if first in _QUOTED:
            return self.string(first)
        if first == "-" or first.isdecimal():
            return self.number()
        name = self.name()
        if name not in _WORDS:
            raise LooseJsonError(f"{name!r} is no value", self.at - len(name))
        return _WORDS[name]

    def members(self, depth: int) -> dict[object, object]:
        found: dict[object, object] = {}
        self.at += 1
        while True:
            while pair := _NUMBER_PAIR.match(self.text, self.at):
                found[int(pair[1])] = int(pair[2])
                self.at = pair.end()
            self.skip(_COMMAS)
            if self.peek() == "}":
                self.at += 1
                return found
            key = self.key(depth)
            self.skip(_SPACE)
            if self.peek() != ":":
                raise LooseJsonError("expected ':'", self.at)
            self.at += 1
            found[key] = self.value(depth + 1)
            self.end_of_item("}")

    def items(self, depth: int) -> list[object]:
        found: list[object] = []
        self.at += 1
        while True:
            self.skip(_COMMAS)
            if self.peek() == "]":
                self.at += 1
                return found
            found.append(self.value(depth + 1))
            self.end_of_item("]")

    def end_of_item(self, closing: str) -> None:
        self.skip(_SPACE)
        if self.peek() not in (",", closing) or not self.peek():
            raise LooseJsonError(f"expected ',' or {closing!r}", self.at)

    def key(self, depth: int) -> object:
        first = self.peek()
        if first == "{" or first == "[":
            return _frozen(self.value(depth + 1))
        if first in _QUOTED:
            return self.string(first)
        if first == "-" or first.isdecimal():
            return self.number()
        name = self.name()
        return _WORDS.get(name, name)

    def string(self, quote: str) -> str:
        found = _QUOTED[quote].match(self.text, self.at)
        if found is None:
            raise LooseJsonError("a string without its end", self.at)
        start, self.at = self.at + 1, found.end()
        inside: str = found[1]
        return inside if "\\" not in inside else _unescaped(inside, start)

    def number(self) -> int | float:
        found = _NUMBER.match(self.text, self.at)
        if found is None or not found[0].isascii():
            raise LooseJsonError("not a number", self.at)
        if len(found[0]) > DIGITS_MAX:
            raise LooseJsonError(f"a number of more than {DIGITS_MAX} digits", self.at)
        self.at = found.end()
        return int(found[0]) if found[1] is None and found[2] is None else float(found[0])

    def name(self) -> str:
        found = _NAME.match(self.text, self.at)
        if found is None:
            what = f"unexpected {self.peek()!r}" if self.peek() else "the text ends too early"
            raise LooseJsonError(what, self.at)
        self.at = found.end()
        return found[0]


def _unescaped(inside: str, start: int) -> str:
    def one(found: re.Match[str]) -> str:
        if found[3] is None:
            return chr(int(found[1] or found[2], 16))
        if found[3] not in _SHORT:
            raise LooseJsonError(f"unknown escape {found[0]!r}", start + found.start())
        return _SHORT[found[3]]

    text = _ESCAPE.sub(one, inside)
    if _HALF.search(text):
        # Pairs become the letter that they stand for; a lone half cannot be written as UTF-8 again.
        text = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")
    return text
