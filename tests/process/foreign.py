"""Run inside a network namespace: ask a broker and a name server from an address that is not loopback.

    python -m tests.process.foreign FOLDER ADDRESS

The namespace has no way out; ADDRESS is given to its loopback device, so that a connection to it comes from
it. Prints one JSON object: the answers to every administrative request and to a send, from both addresses.
"""

import json
import sys
from pathlib import Path

from roquet.wire import requests
from roquet.wire.frame import Frame
from roquet.wire.requests.send import SendV2
from roquet.wire.row import TABLE, row_of
from tests.peers import roquet
from tests.process.rude import Rude

NAMES_PORT, BROKER_PORT = 9876, 10911


def main(folder: Path, address: str) -> None:
    assert requests is not None  # its import fills the table
    words = ["up", "--store", str(folder / "store"), "--bind", "0.0.0.0"]
    process = roquet.launch("roquet up", [*roquet.program(), *words], folder / "out")
    ports = {"broker": BROKER_PORT, "names": NAMES_PORT}
    send = Frame(row_of(SendV2).code, ext=SendV2("p", "t", "TBW102", 4, 0, 0, 0, 0).encode(), body=b"x")
    said: dict[str, dict[str, int]] = {}
    try:
        for host in (address, "127.0.0.1"):
            codes: dict[str, int] = {}
            for program, port in ports.items():
                rows = [row for row in TABLE.values() if program in row.to and row.admin]
                with Rude(f"{host}:{port}") as peer:
                    answers = peer.ask([Frame(row.code) for row in rows])
                codes |= {row.name: answer.code for row, answer in zip(rows, answers, strict=True)}
            with Rude(f"{host}:{BROKER_PORT}") as peer:
                codes["SEND"] = peer.ask([send])[0].code
            said[host] = codes
        process.stop()
    finally:
        process.kill()
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
