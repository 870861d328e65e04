"""Every administrative request of the table has a method in Admin, and every method a contract test."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Final

import roquet.wire.requests  # noqa: F401  # fills the table
from roquet.client.admin import Admin
from roquet.client.admin import admin as home
from roquet.wire.row import TABLE, Header

FOLDER = Path(inspect.getfile(home)).parent
CONTRACT = sorted((Path(__file__).parents[1] / "contract").glob("test_admin*.py"))

CLIENTS: Final = frozenset(
    {
        *("SEND_MESSAGE", "SEND_BATCH_MESSAGE", "SEND_REPLY_MESSAGE", "SEND_REPLY_MESSAGE_V2"),
        *(
            "LITE_PULL_MESSAGE",
            "CONSUMER_SEND_MSG_BACK",
            "END_TRANSACTION",
            "LOCK_BATCH_MQ",
            "UNLOCK_BATCH_MQ",
        ),
        *("HEART_BEAT", "UNREGISTER_CLIENT", "GET_CONSUMER_LIST_BY_GROUP", "CHECK_CLIENT_CONFIG"),
        *("QUERY_ASSIGNMENT", "END_HALVES", "STAGE_HALVES"),
    }
)
"""What producers and consumers ask for themselves."""

SERVERS: Final = frozenset(
    {
        *("REGISTER_BROKER", "UNREGISTER_BROKER", "QUERY_DATA_VERSION", "BROKER_HEARTBEAT"),
        "NOTIFY_MIN_BROKER_ID_CHANGE",
    }
)
"""What brokers and name servers ask of each other."""


def _made_by(path: Path) -> set[type[Header]]:
    """Return the requests that a module makes: classes of the table that it calls."""
    module = importlib.import_module(f"roquet.client.admin.{path.stem}")
    made: set[type[Header]] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        called: object = None
        if isinstance(node.func, ast.Name):
            called = getattr(module, node.func.id, None)
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            called = getattr(getattr(module, node.func.value.id, None), node.func.attr, None)
        if isinstance(called, type) and issubclass(called, Header):
            made.add(called)
    return made


def test_every_administrative_row_is_sent() -> None:
    sent = {request for path in FOLDER.glob("*.py") if path.stem != "__init__" for request in _made_by(path)}
    administrative = {
        row.name: row.header
        for row in TABLE.values()
        if {"broker", "names"} & set(row.to) and row.name not in CLIENTS | SERVERS
    }
    missing = sorted(name for name, header in administrative.items() if header not in sent)
    assert missing == [], "give Admin a method for it"


def test_what_is_left_out_is_in_the_table() -> None:
    assert {row.name for row in TABLE.values()} >= CLIENTS | SERVERS
    assert not [row.name for row in TABLE.values() if row.admin and row.name in CLIENTS | SERVERS]


def test_every_method_has_a_contract_test() -> None:
    tested = set(re.findall(r"admin\.(\w+\.\w+)", "".join(path.read_text() for path in CONTRACT)))
    parts = {name: part for name, part in vars(Admin("127.0.0.1:9876")).items() if not name.startswith("_")}
    methods = {
        f"{name}.{method}"
        for name, part in parts.items()
        for method, function in inspect.getmembers(type(part), inspect.isfunction)
        if not method.startswith("_")
    }
    assert len(methods) > 60
    assert sorted(methods - tested) == []
