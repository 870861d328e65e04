"""Settings of a running name server: shown whole (319), changed where the allow-list says so (318).

    318 ─▶ change_names (keys and values checked, all or nothing) ─▶ file, atomically ─▶ apply ─▶ answer

Place in the flow: beside `names.handlers`. What was answered is in force, and saved when the operator named
a file for it; nothing that comes over the wire chooses a path. Knows neither keys nor values: those are
`runtime.change`. Reference: DefaultRequestProcessor and Configuration of Apache 5.5.0, whose deny-list we
turn into an allow-list.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from roquet.ports import Disk
from roquet.runtime import properties
from roquet.runtime.change import ChangeRefused, change_names, render_names
from roquet.runtime.settings import NamesSettings
from roquet.transport.link import Call
from roquet.transport.router import Handler
from roquet.wire.codes import Code
from roquet.wire.reply import OK, Refusal, Reply
from roquet.wire.requests.names import GetNamesSettings, UpdateNamesSettings
from roquet.wire.row import Header

log = logging.getLogger("roquet.names")


class SettingsHandlers:
    """Holds the settings in force. `apply` puts new ones into force, wherever they are used."""

    def __init__(self, settings: NamesSettings, disk: Disk, apply: Callable[[NamesSettings], None]) -> None:
        self.settings = settings
        self._disk = disk
        self._apply = apply

    def routes(self) -> dict[type[Header], Handler]:
        return {UpdateNamesSettings: self.update, GetNamesSettings: self.show}

    def show(self, request: GetNamesSettings, call: Call) -> Reply:
        return Reply(body=render_names(self.settings).encode())

    def update(self, request: UpdateNamesSettings, call: Call) -> Reply:
        """Change settings: all that the text names, or none."""
        try:
            change = change_names(self.settings, call.frame.body.decode())
        except ChangeRefused as refused:
            raise Refusal(Code.NO_PERMISSION, f"Can not update config: {refused}") from None
        except ValueError as error:  # not UTF-8, or not properties text
            raise Refusal(Code.SYSTEM_ERROR, f"string2Properties error: {error}") from None
        if change.changed:
            self._save(self.settings.config_path, change.changed)
            self.settings = change.names
            self._apply(change.names)
            log.warning("settings changed by %s:%d: %s", *call.link.peer, change.changed)
        return OK

    def _save(self, path: str, changed: Mapping[str, str]) -> None:
        """Write the changed keys into the file, which keeps all else that stands in it."""
        if not path:
            return
        try:
            known = self._disk.read_file(path).decode() if self._disk.exists(path) else ""
            self._disk.write_file(f"{path}.tmp", properties.replace(known, changed).encode())
            self._disk.rename(f"{path}.tmp", path)
        except (OSError, ValueError) as error:
            remark = f"{path} cannot be written, nothing was changed: {error}"
            raise Refusal(Code.SYSTEM_ERROR, remark) from None
