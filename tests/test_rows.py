"""Every row of the table is answered by the program it is for, or is listed as unsupported with a reason."""

from __future__ import annotations

from roquet.broker.unsupported import UNSUPPORTED
from roquet.names.app import NameServer
from roquet.runtime.settings import NamesSettings
from roquet.wire.row import TABLE, row_of
from tests.broker.stage import NAMES_HOST, Stage


def test_the_broker_answers_every_row_that_is_for_it() -> None:
    stage = Stage()
    answered = stage.make_broker().router.codes
    unsupported = {row_of(request).code for request in UNSUPPORTED}
    for_broker = {row.code for row in TABLE.values() if "broker" in row.to}
    assert answered | unsupported == for_broker
    assert not answered & unsupported
    stage.world.close()


def test_the_name_server_answers_every_row_that_is_for_it() -> None:
    stage = Stage()
    server = NameServer(NamesSettings(), stage.world.ports(NAMES_HOST))
    assert server.router.codes == {row.code for row in TABLE.values() if "names" in row.to}
    stage.world.close()


def test_every_row_says_what_it_is_for() -> None:
    for row in TABLE.values():
        assert row.doc.endswith((".", ";", ":")) or "\n" in row.doc, f"{row.name} has no sentence"
        assert row.name.isupper()
