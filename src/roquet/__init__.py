"""Roquet: a message queue compatible with Apache RocketMQ."""

__version__ = "0.1.0"
