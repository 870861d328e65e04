"""Consuming as a member of a group: shares of queues, pulls, hand-outs, positions."""
