"""Filters: SQL92 selectors over message properties, and subscriptions that contradict each other.

    text ─▶ lexer ─▶ sql (grammar) ─▶ nodes (closures over values) ─▶ a predicate ─▶ pulls, parked pulls
    table: which group selects what (consumerFilter.json)      bloom: the bits that stand for a group

All but `feature`, which wires them to the broker, is pure. With `enableConsumeQueueExt` and
`enableCalcFilterBitMap` the selectors are also evaluated when a message is stored, and the store keeps the
groups that want it as bits beside the queue: pulls leave the others out without reading them.
Reference: rocketmq-filter and the broker's filter package, 5.5.0.
"""

from roquet.broker.features.filter.feature import Filter, FilterRules

__all__ = ["Filter", "FilterRules"]
