"""Settings of a running broker: shown whole, changed where the allow-list says so.

    25 ─▶ change_broker (names and values checked, all or nothing) ─▶ file, atomically ─▶ apply ─▶ answer

What was answered is saved and in force. Knows neither keys nor values: those are `runtime.change`.
Codes 25, 26. Reference: AdminBrokerProcessor and Configuration of Apache 5.5.0, whose deny-list we turn
into an allow-list.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from roquet.model.topic import DataVersion
from roquet.ports import Clock, Disk
from roquet.runtime import properties
from roquet.runtime.change import ChangeRefused, change_broker, render_broker
from roquet.runtime.settings import BrokerSettings
from roquet.store.settings import StoreSettings
from roquet.transport.link import Call
from roquet.transport.router import Handler
from roquet.wire.codes import Code
from roquet.wire.reply import OK, Outcome, Refusal, Reply
from roquet.wire.requests.settings import GetSettings, SettingsVersion, UpdateSettings
from roquet.wire.row import Header

log = logging.getLogger("roquet.broker")


class SettingsHandlers:
    """Holds the settings in force. `apply` puts new ones into force, wherever they are used."""

    def __init__(
        self,
        broker: BrokerSettings,
        store: StoreSettings,
        path: str,
        disk: Disk,
        clock: Clock,
        apply: Callable[[BrokerSettings, StoreSettings], None],
    ) -> None:
        """`path` is the file that changes are written to; its folder must exist."""
        self.broker = broker
        self.store = store
        self._path = path
        self._disk = disk
        self._clock = clock
        self._apply = apply
        self.version = DataVersion(timestamp=clock.now_ms())

    def routes(self) -> dict[type[Header], Handler]:
        return {UpdateSettings: self.update_settings, GetSettings: self.get_settings}

    def get_settings(self, request: GetSettings, call: Call) -> Outcome:
        version = msgspec.json.encode(self.version).decode()
        return Reply(header=SettingsVersion(version), body=render_broker(self.broker, self.store).encode())

    def update_settings(self, request: UpdateSettings, call: Call) -> Outcome:
        """Change settings: all that the text names, or none."""
        try:
            text = bytes(call.frame.body).decode()
            change = change_broker(self.broker, self.store, text)
        except ChangeRefused as refused:
            raise Refusal(Code.NO_PERMISSION, f"Can not update config: {refused}") from None
        except ValueError as error:  # not UTF-8, or not properties text
            raise Refusal(Code.SYSTEM_ERROR, f"string2Properties error: {error}") from None
        if not change.changed:
            return OK
        self._save(change.changed)
        self.broker, self.store = change.broker, change.store
        self.version = self.version.next(self._clock.now_ms())
        self._apply(change.broker, change.store)
        log.warning("settings changed by %s:%d: %s", *call.link.peer, change.changed)
        return OK

    def _save(self, changed: dict[str, str]) -> None:
        """Write the changed keys into the file, which keeps all else that stands in it."""
        try:
            known = self._disk.read_file(self._path).decode() if self._disk.exists(self._path) else ""
            self._disk.write_file(f"{self._path}.tmp", properties.replace(known, changed).encode())
            self._disk.rename(f"{self._path}.tmp", self._path)
        except (OSError, ValueError) as error:
            remark = f"{self._path} cannot be written, nothing was changed: {error}"
            raise Refusal(Code.SYSTEM_ERROR, remark) from None
