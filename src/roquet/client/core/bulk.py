"""Many messages at once, column by column: what bulk writers send instead of one object per message; pure.

    bodies   b"…"  b"…"  b"…"      ┐   + a unique id each ─▶ items of batch requests    `items_of`
    texts    "TAGS 01 a 02"  ""  … ┘                      ─▶ property texts of singles  `text_with_id`

A text holds a message's properties as they are on the wire, all but the unique id. Whoever makes texts uses
`pair` and `END`, and `check_texts` on what came from outside. Reference: docs/protocol.md on batch sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from roquet.client.core.sending import OURS, PROPERTIES_BYTES_MAX
from roquet.client.errors import BadMessage
from roquet.wire.bodies.batch import join_item
from roquet.wire.codes import Code

MIDDLE: Final = "\x01"
END: Final = "\x02"
TAG, KEYS, ORDERING_KEY = "TAGS", "KEYS", "__SHARDINGKEY"
OWNED: Final = frozenset(OURS)
"""Names of properties that the protocol makes or reads: users give them in other ways."""

_ID: Final = "UNIQ_KEY"
_ID_CHARS_MAX: Final = 70


def pair(name: str, value: str) -> str:
    """Return one property as it is on the wire."""
    return f"{name}{MIDDLE}{value}{END}"


def text_with_id(text: str, message_id: str) -> str:
    """Return a message's property text."""
    return f"{_ID}{MIDDLE}{message_id}{END}{text}"


def check_texts(texts: Sequence[str], pairs: int) -> None:
    """Raise BadMessage unless the texts hold so many properties in all, and each of them fits."""
    whole = "".join(texts)
    if whole.count(MIDDLE) != pairs or whole.count(END) != pairs:
        raise BadMessage(
            "a property, key or tag holds the character 1 or 2",
            code=Code.MESSAGE_ILLEGAL,
            hint="these two separate properties on the wire: take them out",
        )
    room = PROPERTIES_BYTES_MAX - _ID_CHARS_MAX
    if texts and max(map(len, texts)) * 3 > room:
        longest = max(len(text.encode()) for text in texts)
        if longest > room:
            raise BadMessage(
                f"the properties take {longest} bytes, allowed are {room}",
                code=Code.MESSAGE_ILLEGAL,
                hint="put it into the body",
            )


def check_bodies(bodies: Sequence[bytes], bytes_max: int) -> None:
    """Raise BadMessage when no server would take one of the bodies."""
    sizes = [len(body) for body in bodies]
    if not sizes:
        return
    if not min(sizes):
        raise BadMessage("a body is empty", code=Code.MESSAGE_ILLEGAL, hint="send at least one byte")
    if max(sizes) > bytes_max:
        raise BadMessage(
            f"a body has {max(sizes)} bytes, allowed are {bytes_max}",
            code=Code.MESSAGE_ILLEGAL,
            hint="split it, or raise the limit here and maxMessageSize at the brokers",
        )


def items_of(bodies: Sequence[bytes], texts: Sequence[str], ids: Sequence[str]) -> list[bytes]:
    """Return the messages as items of a batch."""
    return [
        join_item(0, body, f"{_ID}{MIDDLE}{message_id}{END}{text}".encode())
        for body, text, message_id in zip(bodies, texts, ids, strict=True)
    ]
