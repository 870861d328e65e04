"""The parts of a selector: what each means, and which neighbours it allows.

    property · constant · condition (comparisons, AND, OR, NOT, …) · signed value

A node is a closure from a message's properties to a value, and what the rules for its neighbours have to
know of it. Conditions are three-valued: TRUE, FALSE and null; values that cannot be compared raise NoMatch.
The rules are those of rocketmq-filter 5.5.0 (ComparisonExpression, LogicExpression, UnaryExpression). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from roquet.broker.features.filter import values
from roquet.broker.features.filter.lexer import SqlError
from roquet.broker.features.filter.values import Long, Value

DEPTH_MAX: Final = 100
"""Parentheses, signs and comparisons within each other. Each costs a few Python frames."""

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]


class Shape(Enum):
    """What a part of an expression is, as far as the rules for its neighbours go."""

    PROPERTY = "a property"
    CONSTANT = "a constant"
    BOOLEAN = "a condition"
    NUMBER = "a signed value"


class Node(NamedTuple):
    """A part of an expression. `value` is that of a constant; TRUE, FALSE and NULL are conditions too."""

    shape: Shape
    evaluate: Evaluate
    column: int
    depth: int
    value: Value = None

    @property
    def is_boolean(self) -> bool:
        return self.shape is Shape.BOOLEAN or (
            self.shape is Shape.CONSTANT and (self.value is None or isinstance(self.value, bool))
        )

    @property
    def is_number(self) -> bool:
        return isinstance(self.value, int | float) and not isinstance(self.value, bool)


def check_depth(depth: int, column: int) -> None:
    """Refuse what is nested too deep to be evaluated by calls within calls."""
    if depth > DEPTH_MAX:
        raise SqlError(f"the expression is nested deeper than {DEPTH_MAX} levels", column)


def _above(evaluate: Evaluate, *parts: Node, shape: Shape = Shape.BOOLEAN) -> Node:
    """Return a node over others."""
    depth = max(part.depth for part in parts) + 1
    check_depth(depth, parts[0].column)
    return Node(shape, evaluate, parts[0].column, depth)


def constant(value: Value, column: int) -> Node:
    return Node(Shape.CONSTANT, lambda properties: value, column, 1, value)


def property_of(name: str, column: int) -> Node:
    return Node(Shape.PROPERTY, lambda properties: properties.get(name), column, 1)


def condition(node: Node) -> Node:
    """Return a node as a condition: a property is one that holds when its value is TRUE, so never."""
    if node.is_boolean:
        return node
    if node.shape is not Shape.PROPERTY:
        raise SqlError(f"expected a condition, found {node.shape.value}", node.column)
    value_of = node.evaluate

    def cast(properties: Properties) -> Value:
        # Properties are text, and text is not TRUE.
        return None if value_of(properties) is None else False

    return _above(cast, node)


def joined(parts: Sequence[Node], deciding: bool) -> Node:
    """Return OR (decided by TRUE) or AND (decided by FALSE) of conditions.

    One flat node for a whole chain: a long one must not be deep.
    """
    nodes = [condition(part) for part in parts]
    conditions = tuple(node.evaluate for node in nodes)

    def join(properties: Properties) -> Value:
        outcome: Value = not deciding
        for holds in conditions:
            value = holds(properties)
            if value is deciding:
                return deciding
            if value is None:
                outcome = None
        return outcome

    return _above(join, *nodes)


def negation(node: Node) -> Node:
    """Return NOT of a condition."""
    holds = node.evaluate

    def negate(properties: Properties) -> Value:
        value = holds(properties)
        return None if value is None else not value

    return _above(negate, node)


def negative(node: Node) -> Node:
    """Return a value with its sign changed; what is no number becomes null."""
    value_of = node.evaluate

    def change(properties: Properties) -> Value:
        value = value_of(properties)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return Long(-value) if isinstance(value, Long) else -value

    return _above(change, node, shape=Shape.NUMBER)


def equal(left: Node, right: Node) -> Node:
    """Return `left = right`."""
    for node in (left, right):
        if node.shape is Shape.CONSTANT and node.value is None:
            raise SqlError("NULL cannot be compared: write IS NULL or IS NOT NULL", node.column)
    both_constant = left.shape is Shape.CONSTANT and right.shape is Shape.CONSTANT
    if both_constant and left.is_boolean and not right.is_boolean:
        raise SqlError("TRUE and FALSE cannot be compared with such a value", right.column)
    return same(left, right)


def same(left: Node, right: Node) -> Node:
    """Return whether two values are the same; IS NULL is this, with null on the right."""
    left_of, right_of = left.evaluate, right.evaluate

    def compare(properties: Properties) -> Value:
        one, other = left_of(properties), right_of(properties)
        if one is None:
            return True if other is None else None
        if other is None:
            return False
        return values.compare(one, other) == 0

    return _above(compare, left, right)


ORDERS: Final[dict[str, Callable[[int], bool]]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def ordered(left: Node, sign: str, right: Node) -> Node:
    """Return `left sign right` for the signs of ORDERS."""
    for node in (left, right):
        if node.is_boolean or (node.shape is Shape.CONSTANT and not node.is_number):
            raise SqlError(f"only numbers and properties can stand beside {sign}", node.column)
    left_of, right_of, holds = left.evaluate, right.evaluate, ORDERS[sign]

    def compare(properties: Properties) -> Value:
        one = left_of(properties)
        if one is None:
            return None
        other = right_of(properties)
        if other is None:
            return None
        return holds(values.compare_ordered(one, other))

    return _above(compare, left, right)


def between(value: Node, low: Node, high: Node) -> Node:
    """Return `value BETWEEN low AND high`."""
    both = [ordered(value, ">=", low), ordered(value, "<=", high)]
    is_fixed = low.shape is Shape.CONSTANT and high.shape is Shape.CONSTANT
    if is_fixed and values.compare(high.value, low.value) < 0:
        words = f"BETWEEN needs the smaller value first: {low.value} is above {high.value}"
        raise SqlError(words, low.column)
    return joined(both, False)


def not_between(value: Node, low: Node, high: Node) -> Node:
    """Return `value NOT BETWEEN low AND high`, where the order of the two does not matter."""
    return joined([ordered(value, "<", low), ordered(value, ">", high)], True)


def among(left: Node, listed: Sequence[str], is_not: bool) -> Node:
    """Return `left [NOT] IN (listed)`."""
    if left.shape is not Shape.PROPERTY:
        raise SqlError(f"IN needs a property before it, found {left.shape.value}", left.column)
    wanted, value_of = frozenset(listed), left.evaluate

    def find(properties: Properties) -> Value:
        value = value_of(properties)
        return None if value is None else (value in wanted) is not is_not

    return _above(find, left)


TEXT_TESTS: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def text_test(left: Node, word: str, part: str, is_not: bool) -> Node:
    """Return `left [NOT] word 'part'` for the words of TEXT_TESTS."""
    value_of, test = left.evaluate, TEXT_TESTS[word]

    def look(properties: Properties) -> Value:
        value = value_of(properties)
        # Not even NOT makes a match of what is no text, or of a search for nothing.
        return isinstance(value, str) and bool(part) and test(value, part) is not is_not

    return _above(look, left)
