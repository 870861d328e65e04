"""The table of keys: every row points at a field, every field has a row, and the allow-list is safe."""

from __future__ import annotations

import dataclasses

import pytest

from roquet.runtime.apache_keys import ACCEPTED_WITHOUT_EFFECT, BROKER_REFUSED
from roquet.runtime.keys import BROKER_ROWS, NAMES_ROWS, STORE_ROWS, Key
from roquet.runtime.settings import BrokerSettings, NamesSettings
from roquet.runtime.values import Address, Choice, Endpoints, Name, Path
from roquet.runtime.vocabulary import BROKER
from roquet.store.settings import StoreSettings

ALL_ROWS = (*BROKER_ROWS, *STORE_ROWS, *NAMES_ROWS)

# Found out or fixed by the program itself, not configured.
WITHOUT_KEY = {"physical_memory_bytes", "checkpoint_interval_ms", "clean_first_delay_ms"}


@pytest.mark.parametrize(
    ("rows", "settings"),
    [(BROKER_ROWS, BrokerSettings()), (STORE_ROWS, StoreSettings("/s")), (NAMES_ROWS, NamesSettings())],
)
def test_rows_and_fields_match_and_defaults_are_allowed(rows: tuple[Key, ...], settings: object) -> None:
    assert dataclasses.is_dataclass(settings)
    fields = {field.name for field in dataclasses.fields(settings)} - WITHOUT_KEY
    assert sorted(fields) == sorted(row.field for row in rows)
    for row in rows:
        default = getattr(settings, row.field)
        if default != "":
            assert row.kind.read(row.kind.write(default)) == default, row.java
        assert row.help and row.kind.allowed


def test_no_key_is_listed_twice() -> None:
    names = [row.java for row in (*BROKER_ROWS, *STORE_ROWS)]
    names += [*ACCEPTED_WITHOUT_EFFECT, *BROKER_REFUSED]
    assert len(names) == len(set(names))


def test_paths_addresses_names_ports_and_promises_never_change_at_run_time() -> None:
    hot = [row for row in ALL_ROWS if row.hot]
    assert hot
    for row in hot:
        assert not isinstance(row.kind, Path | Address | Endpoints | Name | Choice), row.java
        assert not row.java.endswith("Port"), row.java
        assert row.java not in ("adminFromAnywhere", "flushDiskType", "brokerRole", "brokerId"), row.java


def test_every_key_of_the_reference_is_known() -> None:
    """Keys from each of Apache's six configuration classes, by hand."""
    known = BROKER.names()
    sample = (
        "sendMessageThreadPoolNums useEpollNativeSelector transientStorePoolEnable serverWorkerThreads "
        "clientAsyncSemaphoreValue haMasterAddress timerMaxDelaySec transactionTimeOut popPollingSize "
        "authenticationProvider dLegerPeers liteTtlCheckInterval rocksdbCompressionType splitMetadataSize"
    )
    for key in sample.split(" "):
        assert key in known
    assert len(known) > 487
