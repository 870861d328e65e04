"""Show a program's settings, and change them while it runs.

GET_BROKER_CONFIG and UPDATE_BROKER_CONFIG (and the name server's two) come here. Changing is a pure
function: text and old settings in, new settings out, or one ChangeRefused that says which key, why and
what would be possible. The allow-list are the `hot` rows of `keys`; applying the new settings and
writing the changed keys back to the file (`properties.replace`) is the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from roquet.runtime import properties
from roquet.runtime.keys import Part
from roquet.runtime.settings import BrokerSettings, NamesSettings
from roquet.runtime.vocabulary import BROKER, NAMES, Vocabulary
from roquet.store.settings import StoreSettings


class ChangeRefused(Exception):
    """A setting cannot be changed in this way; nothing has been changed."""

    def __init__(self, key: str, reason: str, allowed: str) -> None:
        super().__init__(f"{key}: {reason}; allowed: {allowed}")
        self.key = key
        self.reason = reason
        self.allowed = allowed


def render_broker(broker: BrokerSettings, store: StoreSettings) -> str:
    """Return every known key with its value as sorted lines `key=value`, as GET_BROKER_CONFIG shows them.

    Keys without effect show Apache's default and never what the file says, so no password can appear.
    """
    return _rendered(BROKER, {Part.BROKER: broker, Part.STORE: store})


def render_names(names: NamesSettings) -> str:
    """Return every known key of a name server; see `render_broker`."""
    return _rendered(NAMES, {Part.NAMES: names})


class BrokerChange(NamedTuple):
    """Settings after a change, and what was changed as (key, text), for the file."""

    broker: BrokerSettings
    store: StoreSettings
    changed: dict[str, str]


class NamesChange(NamedTuple):
    """Settings of a name server after a change; see `BrokerChange`."""

    names: NamesSettings
    changed: dict[str, str]


def change_broker(broker: BrokerSettings, store: StoreSettings, text: str) -> BrokerChange:
    """Return the settings with those of the properties text over them.

    All or nothing: raises ChangeRefused for the first key that is not on the allow-list or whose value
    is not possible, and BadProperties when the text cannot be read.
    """
    values, changed = _changes(BROKER, {Part.BROKER: broker, Part.STORE: store}, text)
    return BrokerChange(replace(broker, **values[Part.BROKER]), replace(store, **values[Part.STORE]), changed)


def change_names(names: NamesSettings, text: str) -> NamesChange:
    """Return a name server's settings with those of the text over them; see `change_broker`."""
    values, changed = _changes(NAMES, {Part.NAMES: names}, text)
    return NamesChange(replace(names, **values[Part.NAMES]), changed)


def _rendered(vocabulary: Vocabulary, parts: Mapping[Part, object]) -> str:
    lines = {key: passive.default for key, passive in vocabulary.passive.items() if passive.shown}
    lines |= {key: refused.accepted for key, refused in vocabulary.refused.items()}
    for key, row in vocabulary.rows.items():
        text = row.kind.write(getattr(parts[row.part], row.field))
        if text:  # Java shows no key that is not set
            lines[key] = text
    return "".join(f"{key}={lines[key]}\n" for key in sorted(lines))


def _changes(
    vocabulary: Vocabulary, parts: Mapping[Part, object], text: str
) -> tuple[dict[Part, dict[str, Any]], dict[str, str]]:
    values: dict[Part, dict[str, Any]] = {part: {} for part in Part}
    changed: dict[str, str] = {}
    for key, raw, _ in properties.read(text):
        value = raw.strip()
        row = vocabulary.rows.get(key)
        if row is None:
            _refuse_unless_same(vocabulary, key, value)
            continue
        try:
            new = row.kind.read(value)
        except ValueError:
            raise ChangeRefused(key, f"{value!r} is not possible", row.kind.allowed) from None
        if new == getattr(parts[row.part], row.field):
            continue
        if not row.hot:
            raise ChangeRefused(
                key,
                "cannot change while running; edit the configuration file and restart",
                _hot_keys(vocabulary),
            )
        values[row.part][row.field] = new
        changed[key] = row.kind.write(new)
    return values, changed


def _refuse_unless_same(vocabulary: Vocabulary, key: str, value: str) -> None:
    """Let a whole configuration that came from `render` pass; refuse what would be a change."""
    if key in vocabulary.passive:
        if value != vocabulary.passive[key].default:
            reason = f"has no effect: {vocabulary.passive[key].reason}"
            raise ChangeRefused(key, reason, _hot_keys(vocabulary))
    elif key in vocabulary.refused:
        accepted, missing = vocabulary.refused[key]
        if value != accepted:
            raise ChangeRefused(key, f"not supported yet: {missing}", accepted or "no value")
    else:
        raise ChangeRefused(key, f"unknown key{vocabulary.nearest(key)}", _hot_keys(vocabulary))


def _hot_keys(vocabulary: Vocabulary) -> str:
    return ", ".join(sorted(key for key, row in vocabulary.rows.items() if row.hot))
