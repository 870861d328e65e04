"""Filters: SQL92 selectors over message properties, and subscriptions that contradict each other.

    text ─▶ lexer ─▶ sql (grammar) ─▶ nodes (closures over values) ─▶ a predicate ─▶ pulls, parked pulls
    table: which group selects what (consumerFilter.json)      bloom: the bits that stand for a group

All but `feature`, which wires them to the broker, is pure. Apache's extension files of the consume queue,
which hold prepared bit maps, are neither written nor read: selectors are evaluated on the properties.
Reference: rocketmq-filter and the broker's filter package, 5.5.0.
"""

from roquet.broker.features.filter.feature import Filter, FilterRules

__all__ = ["Filter", "FilterRules"]
