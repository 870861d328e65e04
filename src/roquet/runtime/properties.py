"""Java properties text, the form of broker.conf and of configuration on the wire.

    # or ! starts a comment           key=value   key:value   key value
    a \\ at the end of a line goes on in the next, without its leading blanks
    escapes: \\t \\n \\r \\f \\uXXXX, and \\c for any other c alone

`read` keeps line numbers for messages to people, `write` makes text that Java reads back, `replace`
edits a file that a person wrote and keeps their comments. Reference: java.util.Properties of Java 17.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NAMED = {value: "\\" + letter for letter, value in _ESCAPES.items()}
_LINE_END = re.compile(r"\r\n|\n|\r")
_UNICODE = re.compile(r"[0-9a-fA-F]{4}")


class Property(NamedTuple):
    """One key with its value, and the line (from 1) on which it begins."""

    key: str
    value: str
    line: int


class BadProperties(ValueError):
    """The text is not properties text; Java refuses it as well."""


class _Logical(NamedTuple):
    """A line with its continuations joined, and the natural lines that it covers."""

    text: str
    first_line: int
    end_line: int


def read(text: str) -> list[Property]:
    """Return the properties in their order, repeated keys included; raises BadProperties."""
    return [_split(logical) for logical in _logical_lines(_LINE_END.split(text))]


def write(pairs: Iterable[tuple[str, str]]) -> str:
    """Return lines `key=value` that Java reads back to the same pairs."""
    return "".join(f"{_escaped(key, in_key=True)}={_escaped(value, in_key=False)}\n" for key, value in pairs)


def replace(text: str, changes: Mapping[str, str]) -> str:
    """Return the text with new values: in place where a key stands already, else at the end."""
    lines = _LINE_END.split(text)
    left = dict(changes)
    kept: list[str] = []
    position = 0
    for logical in _logical_lines(lines):
        kept += lines[position : logical.first_line - 1]
        key = _split(logical).key
        if key not in changes:
            kept += lines[logical.first_line - 1 : logical.end_line]
        elif key in left:  # a repeated key keeps its first place and loses the others
            kept.append(write([(key, left.pop(key))]).rstrip("\n"))
        position = logical.end_line
    kept += lines[position:]
    while kept and not kept[-1]:
        kept.pop()
    return "".join(line + "\n" for line in kept) + write(left.items())


def _logical_lines(lines: list[str]) -> Iterator[_Logical]:
    number = 0
    while number < len(lines):
        first = number
        joined = lines[number].lstrip(_BLANKS)
        number += 1
        if not joined or joined[0] in "#!":
            continue
        while _continues(joined):
            joined = joined[:-1]
            if number == len(lines) or not joined:  # nothing yet: the next line begins anew
                break
            joined += lines[number].lstrip(_BLANKS)
            number += 1
        if joined:
            yield _Logical(joined, first + 1, number)


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(logical: _Logical) -> Property:
    text = logical.text
    end = 0
    while end < len(text) and text[end] not in "=:" + _BLANKS:
        end += 2 if text[end] == "\\" else 1
    rest = text[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return Property(
        _unescaped(text[:end], logical.first_line), _unescaped(rest, logical.first_line), logical.first_line
    )


def _unescaped(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            out.append(char)
            continue
        char = text[position : position + 1]
        position += 1
        if char == "u":
            digits = _UNICODE.match(text, position)
            if digits is None:
                raise BadProperties(f"line {line}: \\u must be followed by four hexadecimal digits")
            out.append(chr(int(digits.group(), 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(char, char))
    # Java's text is UTF-16: a character beyond the first 65,536 is written as two escapes.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escaped(text: str, *, in_key: bool) -> str:
    out: list[str] = []
    for position, char in enumerate(text):
        if char in _NAMED:
            out.append(_NAMED[char])
        elif char in "=:#!\\" or (char == " " and (in_key or position == 0)):
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        else:
            units = char.encode("utf-16-be", "surrogatepass")
            out += [f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2)]
    return "".join(out)
