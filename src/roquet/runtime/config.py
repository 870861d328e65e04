"""Read settings from files, environment and flags.

    NAMESRV_ADDR < file (-c) < environment ROQUET_<KEY> < --set key=value < flags

The `vocabulary` says what a key means; this module finds the values, checks them and
words the complaints: every problem of a start is reported at once, each with its place, the key, the
value and what is allowed. Nothing is logged here: notes are returned, for the program to print.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from typing import Any, NamedTuple

from roquet.runtime import properties
from roquet.runtime.keys import Key, Part
from roquet.runtime.settings import BrokerSettings, NamesSettings, Role
from roquet.runtime.vocabulary import BROKER, NAMES, Vocabulary
from roquet.store.settings import StoreSettings

ENV_PREFIX = "ROQUET_"
ENV_NOT_SETTINGS = ("log", "nouvloop", "pure")  # read elsewhere: logs, event loop, kernels


class Severity(Enum):
    """How loudly to say a note."""

    INFO = "info"
    WARNING = "warning"


class Note(NamedTuple):
    """Something that the person who starts the program should know."""

    severity: Severity
    text: str


class BadSettings(ValueError):
    """The program cannot start with these settings; one line for each problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class BrokerConfig(NamedTuple):
    """What `load_broker` found."""

    broker: BrokerSettings
    store: StoreSettings
    notes: tuple[Note, ...]


class NamesConfig(NamedTuple):
    """What `load_names` found."""

    names: NamesSettings
    notes: tuple[Note, ...]


class Found(NamedTuple):
    """A value, and where it stood."""

    value: str
    origin: str


class _Reading:
    """One pass over all sources for one program."""

    def __init__(self, vocabulary: Vocabulary, other: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.found: dict[str, Found] = {}
        self.values: dict[Part, dict[str, Any]] = {part: {} for part in Part}
        self.notes: list[Note] = []
        self.problems: list[str] = []
        self._other = other

    def note(self, severity: Severity, text: str) -> None:
        self.notes.append(Note(severity, text))

    def gather(
        self, conf_path: str, env: Mapping[str, str], sets: Sequence[str], overrides: Mapping[str, str]
    ) -> None:
        """Collect all values, later sources over earlier ones."""
        if conf_path:
            self._gather_file(conf_path)
        self._gather_env(env)
        for text in sets:
            key, equals, value = text.partition("=")
            if equals:
                self.found[key.strip()] = Found(value, "--set")
            else:
                self.problems.append(f"--set {text}: expected key=value")
        for key, value in overrides.items():
            self.found[key] = Found(value, "command line")

    def _gather_file(self, path: str) -> None:
        try:
            with open(path, encoding="utf-8") as file:
                pairs = properties.read(file.read())
        except OSError as error:
            self.problems.append(f"{path}: cannot be read: {error.strerror}")
            return
        except ValueError as error:  # not UTF-8, or not properties text
            self.problems.append(f"{path}: {error}")
            return
        seen: dict[str, int] = {}
        for key, value, line in pairs:
            if key in seen:
                text = f"{path}, line {line}: {key} stands on line {seen[key]} too; the last one counts"
                self.note(Severity.WARNING, text)
            seen[key] = line
            self.found[key] = Found(value, f"{path}, line {line}")

    def _gather_env(self, env: Mapping[str, str]) -> None:
        known = {_squashed(key): key for key in self.vocabulary.names()}
        foreign = {_squashed(key) for key in self._other.names()}
        for name in sorted(env):
            if not name.upper().startswith(ENV_PREFIX):
                continue
            word = _squashed(name[len(ENV_PREFIX) :])
            if word in known:
                self.found[known[word]] = Found(env[name], f"environment {name}")
            elif word not in foreign and word not in ENV_NOT_SETTINGS:
                close = get_close_matches(word, known, 1)
                hint = f"; did you mean ROQUET_{known[close[0]]}?" if close else ""
                self.note(Severity.WARNING, f"environment {name}: no such setting{hint}")

    def interpret(self) -> None:
        """Turn what was found into values of fields, notes and problems."""
        for key, (text, origin) in self.found.items():
            value = text.strip()
            if key in self.vocabulary.refused:
                self._check_refused(key, value, origin)
            elif key in self.vocabulary.passive:
                reason = self.vocabulary.passive[key].reason
                self.note(Severity.INFO, f"{origin}: {key} has no effect: {reason}")
            elif key not in self.vocabulary.rows:
                nearest = self.vocabulary.nearest(key)
                self.note(Severity.WARNING, f"{origin}: unknown key {key} is ignored{nearest}")
            elif value:  # an empty value leaves the default
                self._take(self.vocabulary.rows[key], value, origin)

    def _take(self, row: Key, value: str, origin: str) -> None:
        try:
            self.values[row.part][row.field] = row.kind.read(value)
        except ValueError:
            self.problems.append(f"{origin}: {row.java}={value} is not possible; allowed: {row.kind.allowed}")

    def _check_refused(self, key: str, value: str, origin: str) -> None:
        accepted, missing = self.vocabulary.refused[key]
        if value and value.lower() != accepted.lower():
            remedy = f"set it to {accepted}" if accepted else "take the line away"
            self.problems.append(f"{origin}: {key}={value}: not supported yet: {missing}; {remedy}")

    def finish(self) -> tuple[Note, ...]:
        """Return the notes; raises BadSettings when there are problems."""
        if self.problems:
            raise BadSettings(self.problems)
        return tuple(self.notes)


def load_broker(
    conf_path: str,
    env: Mapping[str, str],
    sets: Sequence[str] = (),
    overrides: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """Read a broker's settings; an empty `conf_path` means no file; raises BadSettings.

    `overrides` maps Java keys to the text that command line options gave.
    """
    reading = _Reading(BROKER, NAMES)
    if env.get("NAMESRV_ADDR"):
        reading.found["namesrvAddr"] = Found(env["NAMESRV_ADDR"], "environment NAMESRV_ADDR")
    reading.gather(conf_path, env, sets, overrides or {})
    reading.interpret()
    broker = reading.values[Part.BROKER]
    broker.setdefault("broker_name", re.sub(r"[^%|a-zA-Z0-9_-]", "-", socket.gethostname())[:127])
    broker["config_path"] = os.path.abspath(conf_path) if conf_path else ""
    _check_role(reading, broker)
    store = reading.values[Part.STORE]
    store.setdefault("root_dir", os.path.expanduser("~/store"))
    store["physical_memory_bytes"] = _memory_bytes()
    notes = reading.finish()
    return BrokerConfig(BrokerSettings(**broker), StoreSettings(**store), notes)


def load_names(
    conf_path: str,
    env: Mapping[str, str],
    sets: Sequence[str] = (),
    overrides: Mapping[str, str] | None = None,
) -> NamesConfig:
    """Read a name server's settings; see `load_broker`."""
    reading = _Reading(NAMES, BROKER)
    reading.gather(conf_path, env, sets, overrides or {})
    reading.interpret()
    names = reading.values[Part.NAMES]
    names.setdefault("kv_config_path", os.path.expanduser("~/namesrv/kvConfig.json"))
    if conf_path:
        names["config_path"] = os.path.abspath(conf_path)
    notes = reading.finish()
    return NamesConfig(NamesSettings(**names), notes)


def _check_role(reading: _Reading, broker: dict[str, Any]) -> None:
    role = broker.get("role", Role.ASYNC_MASTER)
    if role is Role.SLAVE:
        reading.problems.append("brokerRole=SLAVE: not supported yet: replication; use ASYNC_MASTER")
    if role is Role.SYNC_MASTER:
        text = "brokerRole=SYNC_MASTER: there is no replication yet; sends wait for no slave"
        reading.note(Severity.WARNING, text)
    if broker.get("broker_id", 0) != 0:
        text = f"brokerId={broker['broker_id']} is ignored: a master has id 0"
        reading.note(Severity.WARNING, text)
        broker["broker_id"] = 0


def _squashed(name: str) -> str:
    """Return a form in which flushDiskType and FLUSH_DISK_TYPE are the same."""
    return name.replace("_", "").lower()


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
