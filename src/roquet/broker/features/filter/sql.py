"""SQL92 selectors: text ─▶ a function of a message's properties.

    or ─▶ and ─▶ equality (= <> IS NULL) ─▶ comparison (< > BETWEEN IN CONTAINS …) ─▶ unary (+ - NOT)
       ─▶ literal, property, parentheses

Recursive descent straight to closures (`nodes`): nothing of a text is ever executed. An expression matches
when its value is TRUE. Bounded in length and depth, and the last 100 are kept parsed. What follows a whole
expression is ignored, as Apache 5.5.0's SelectorParser does (`Selector.ignored` says where). Reference:
rocketmq-filter 5.5.0, whose answers tests/golden/sql92.json holds.
"""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from typing import Final, NamedTuple

from roquet.broker.features.filter import nodes, values
from roquet.broker.features.filter.lexer import Kind, Lexer, SqlError, Token
from roquet.broker.features.filter.nodes import Evaluate, Node, Properties
from roquet.broker.features.filter.values import Long, NoMatch, Value

CHARS_MAX: Final = 32 * 1024
"""Apache knows no limit; nobody writes such a selector. A pull carries it in its header, which is bounded
too (64 KiB): what is allowed here fits there."""

CACHE_SIZE: Final = 100
"""As many as Apache keeps."""

_CONSTANTS: Final[dict[str, bool | None]] = {"TRUE": True, "FALSE": False, "NULL": None}
_WORD_RULES: Final = frozenset(nodes.TEXT_TESTS) | {"BETWEEN", "IN"}


class Selector(NamedTuple):
    """A parsed expression."""

    text: str
    evaluate: Evaluate
    ignored: str

    def matches(self, properties: Properties) -> bool:
        """Return whether a message with these properties is wanted."""
        try:
            return self.evaluate(properties) is True
        except NoMatch:
            return False


def parse(text: str) -> Selector:
    """Return the selector of an expression; raises SqlError, which names the column."""
    if len(text) > CHARS_MAX:
        raise SqlError(f"the expression has {len(text)} characters, at most {CHARS_MAX} are allowed", 1)
    parsed = _parse(text)
    if isinstance(parsed, SqlError):
        raise parsed
    return parsed


@lru_cache(maxsize=CACHE_SIZE)
def _parse(text: str) -> Selector | SqlError:
    """Failures are kept too: a wrong expression comes again with every heartbeat."""
    try:
        return _Parser(text).selector()
    except SqlError as error:
        return error.with_traceback(None)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._lexer = Lexer(text)
        self._token = self._lexer.next()
        self._nesting = 0

    def selector(self) -> Selector:
        node = nodes.condition(self._or())
        rest = self._token
        ignored = "" if rest.kind is Kind.END else f"column {rest.column}: ignored from {rest.text!r} on"
        return Selector(self._text, node.evaluate, ignored)

    # Tokens.

    def _take(self) -> Token:
        token = self._token
        self._token = self._lexer.next()
        return token

    def _take_if(self, text: str, kind: Kind = Kind.WORD) -> bool:
        if self._token.kind is not kind or self._token.text != text:
            return False
        self._take()
        return True

    def _expect(self, text: str, kind: Kind = Kind.WORD) -> None:
        if not self._take_if(text, kind):
            raise self._unexpected(text)

    def _expect_string(self) -> str:
        if self._token.kind is not Kind.STRING:
            raise self._unexpected("a string in quotes")
        return self._take().text

    def _unexpected(self, wanted: str) -> SqlError:
        token = self._token
        found = "the end" if token.kind is Kind.END else f"{token.kind.value} {token.text[:40]!r}"
        return SqlError(f"expected {wanted}, found {found}", token.column)

    # The grammar, loosest first.

    def _or(self) -> Node:
        parts = [self._and()]
        while self._take_if("OR"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else nodes.joined(parts, True)

    def _and(self) -> Node:
        parts = [self._equality()]
        while self._take_if("AND"):
            parts.append(self._equality())
        return parts[0] if len(parts) == 1 else nodes.joined(parts, False)

    def _equality(self) -> Node:
        left = self._comparison()
        while True:
            if self._take_if("=", Kind.SIGN):
                left = nodes.equal(left, self._comparison())
            elif self._take_if("<>", Kind.SIGN):
                left = nodes.negation(nodes.equal(left, self._comparison()))
            elif self._take_if("IS"):
                is_not = self._take_if("NOT")
                is_null = nodes.same(left, nodes.constant(None, self._token.column))
                self._expect("NULL")
                left = nodes.negation(is_null) if is_not else is_null
            else:
                return left

    def _comparison(self) -> Node:
        left = self._unary()
        while True:
            token = self._token
            if token.kind is Kind.SIGN and token.text in nodes.ORDERS:
                self._take()
                left = nodes.ordered(left, token.text, self._unary())
            elif token.kind is Kind.WORD and token.text == "NOT":
                self._take()
                if self._token.kind is not Kind.WORD or self._token.text not in _WORD_RULES:
                    raise self._unexpected("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH after NOT")
                left = self._by_word(left, True)
            elif token.kind is Kind.WORD and token.text in _WORD_RULES:
                left = self._by_word(left, False)
            else:
                return left

    def _by_word(self, left: Node, is_not: bool) -> Node:
        word = self._take().text
        if word == "BETWEEN":
            low = self._unary()
            self._expect("AND")
            high = self._unary()
            return nodes.not_between(left, low, high) if is_not else nodes.between(left, low, high)
        if word == "IN":
            return nodes.among(left, self._list(), is_not)
        return nodes.text_test(left, word, self._expect_string(), is_not)

    def _list(self) -> list[str]:
        self._expect("(", Kind.SIGN)
        listed = [self._expect_string()]
        while self._take_if(",", Kind.SIGN):
            listed.append(self._expect_string())
        self._expect(")", Kind.SIGN)
        return listed

    def _unary(self) -> Node:
        self._nesting += 1
        column = self._token.column
        nodes.check_depth(self._nesting, column)
        if self._take_if("+", Kind.SIGN):
            node = self._unary()
        elif self._take_if("-", Kind.SIGN):
            node = nodes.negative(self._unary())._replace(column=column)
        elif self._take_if("NOT"):
            node = nodes.negation(nodes.condition(self._unary()))._replace(column=column)
        else:
            node = self._primary()
        self._nesting -= 1
        return node

    def _primary(self) -> Node:
        token = self._token
        if self._take_if("(", Kind.SIGN):
            node = self._or()
            self._expect(")", Kind.SIGN)
            return node
        if token.kind is Kind.NAME:
            self._take()
            return nodes.property_of(token.text, token.column)
        return nodes.constant(self._literal(token), token.column)

    def _literal(self, token: Token) -> Value:
        value: Value
        if token.kind is Kind.WORD and token.text in _CONSTANTS:
            value = _CONSTANTS[token.text]
        elif token.kind is Kind.INTEGER:
            value = _integer(token)
        elif token.kind is Kind.FLOAT:
            value = _double(token)
        elif token.kind is Kind.STRING:
            value = token.text
        else:
            raise self._unexpected("a property, a value or a parenthesis")
        self._take()
        return value


def _integer(token: Token) -> int:
    digits = token.text
    if len(digits) > values.LONG_DIGITS_MAX or int(digits) > values.LONG_MAX:
        raise SqlError(f"{digits[:40]} does not fit 64 bits", token.column)
    number = int(digits)
    return number if number <= values.INT_MAX else Long(number)


def _double(token: Token) -> float:
    number = float(token.text)
    if math.isinf(number):
        raise SqlError(f"{token.text[:40]} is greater than {sys.float_info.max}", token.column)
    if number <= 0.0:
        # Apache's rule: its smallest allowed number is above zero. A zero can be written without a point.
        raise SqlError(f"{token.text[:40]} is too small: write 0 for zero", token.column)
    return number
