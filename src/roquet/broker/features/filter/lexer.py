"""SQL92 text into tokens: the first step of a selector.

    text ── tokens ──▶ (kind, text, column) … END

Keywords are read in any case, names of properties as they are written. What looks odd here is how Apache
5.5.0's SelectorParser cuts text: a line comment counts only when its line ends, `0L` is a number and a
name, and nothing is looked at before the parser asks for it. Pure; each character is looked at a bounded
number of times.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Kind(Enum):
    """What a token is."""

    WORD = "keyword"
    NAME = "name"
    STRING = "string"
    INTEGER = "integer"
    FLOAT = "number"
    SIGN = "sign"
    END = "end of the expression"


class Token(NamedTuple):
    """`text` is the keyword in capitals, the value of a string, or what was written."""

    kind: Kind
    text: str
    column: int


class SqlError(ValueError):
    """An expression that cannot be used; the words say where and why."""

    def __init__(self, words: str, column: int) -> None:
        super().__init__(f"column {column}: {words}")
        self.column = column


WORDS: Final = frozenset(
    ["NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH"]
)
SIGNS: Final = ("<>", "<=", ">=", "=", "<", ">", "(", ")", ",", "+", "-")
BLANKS: Final = " \t\n\r\f"
DIGITS: Final = frozenset("0123456789")
NAME_START: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$")
NAME_REST: Final = NAME_START | DIGITS


class Lexer:
    """Hands out the tokens of one text, one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._last_line_end = max(text.rfind("\n"), text.rfind("\r"))

    def next(self) -> Token:
        """Return the next token; raises SqlError where none begins."""
        self._skip()
        text, start = self._text, self._at
        if start >= len(text):
            return Token(Kind.END, "", start + 1)
        first = text[start]
        if first in NAME_START:
            return self._name(start)
        if first == "'":
            return self._string(start)
        if first in DIGITS or (first == "." and text[start + 1 : start + 2] in DIGITS):
            return self._number(start)
        for sign in SIGNS:
            if text.startswith(sign, start):
                self._at += len(sign)
                return Token(Kind.SIGN, sign, start + 1)
        raise SqlError(f"{first!r} cannot stand here", start + 1)

    def _skip(self) -> None:
        """Go behind blanks and comments."""
        text, size = self._text, len(self._text)
        while self._at < size:
            if text[self._at] in BLANKS:
                self._at += 1
            elif text.startswith("--", self._at) and self._at < self._last_line_end:
                while text[self._at] not in "\n\r":
                    self._at += 1
            elif text.startswith("/*", self._at):
                end = text.find("*/", self._at + 2)
                if end < 0:
                    raise SqlError("this comment has no end: close it with */", self._at + 1)
                self._at = end + 2
            else:
                return

    def _run(self, at: int, allowed: frozenset[str]) -> int:
        """Return where a run of allowed characters ends."""
        text, size = self._text, len(self._text)
        while at < size and text[at] in allowed:
            at += 1
        return at

    def _name(self, start: int) -> Token:
        self._at = self._run(start, NAME_REST)
        text = self._text[start : self._at]
        word = text.upper()
        return Token(Kind.WORD, word, start + 1) if word in WORDS else Token(Kind.NAME, text, start + 1)

    def _string(self, start: int) -> Token:
        """Read to the quote that is not doubled."""
        parts: list[str] = []
        at = start + 1
        while True:
            end = self._text.find("'", at)
            if end < 0:
                raise SqlError("this string has no end: close it with a quote", start + 1)
            parts.append(self._text[at:end])
            at = end + 1
            if not self._text.startswith("'", at):
                break
            at += 1
        self._at = at
        return Token(Kind.STRING, "'".join(parts), start + 1)

    def _number(self, start: int) -> Token:
        text = self._text
        end = whole_end = self._run(start, DIGITS)
        is_float = text.startswith(".", end)
        if is_float:
            end = self._run(end + 1, DIGITS)
        exponent_end = self._exponent(end)
        if is_float or exponent_end > end:
            self._at = exponent_end
            return Token(Kind.FLOAT, text[start : self._at], start + 1)
        if text[start] == "0":
            # A zero is a number of its own: what follows it is another.
            self._at = start + 1
        else:
            has_suffix = text[whole_end : whole_end + 1] in ("l", "L")
            self._at = whole_end + has_suffix
        return Token(Kind.INTEGER, text[start:whole_end] if text[start] != "0" else "0", start + 1)

    def _exponent(self, at: int) -> int:
        """Return where an exponent that begins at `at` ends; `at` itself when there is none."""
        text = self._text
        if text[at : at + 1] not in ("e", "E"):
            return at
        digits = at + 2 if text[at + 1 : at + 2] in ("+", "-") else at + 1
        end = self._run(digits, DIGITS)
        return end if end > digits else at
