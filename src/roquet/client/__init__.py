"""Clients of a cluster. For now the plain one: send to a topic, read a queue, ask anything."""

from roquet.client.plain import Answered, Message, Plain, connect

__all__ = ["Answered", "Message", "Plain", "connect"]
