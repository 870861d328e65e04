"""Where the cluster is, as users write it, made into one value; pure.

    10.0.0.1:9876;10.0.0.2:9876                           name servers (commas will do, too)
    roquet://10.0.0.1:9876,10.0.0.2:9876?namespace=shop   the same with options: see OPTIONS
    http://config:8080/rocketmq/nsaddr                    an address that serves such a list as text
    http://MQ_INST_a_b.mq.example:80                      one server; its first label is the namespace

Nothing is resolved or asked here.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, cast
from urllib.parse import SplitResult, parse_qsl, urlsplit

from roquet.client.errors import Misuse
from roquet.transport.dialer import parse_address

Encoding = Literal["json", "binary"]

OPTIONS: Final = ("namespace", "unit", "instance", "timeout", "encoding")
_INSTANCE: Final = re.compile(r"MQ_INST_\w+_\w+(?=\.)", re.ASCII)


class Where(NamedTuple):
    """Name servers, or the page that lists them; empty options are not given."""

    name_servers: tuple[str, ...] = ()
    list_url: str = ""
    namespace: str = ""
    unit: str = ""
    instance: str = ""
    timeout_s: float = 3.0
    encoding: Encoding = "json"


def parse(text: str) -> Where:
    """Return what a text says about where the cluster is; raises Misuse that shows what is wrong."""
    text = text.strip()
    if not text:
        raise Misuse(
            "no name server is given",
            hint='write roquet.Cluster("127.0.0.1:9876"), or set ROQUET_NAMESRV or NAMESRV_ADDR',
        )
    scheme, colon, _ = text.partition("://")
    if not colon:
        return Where(parse_list(text))
    parts = urlsplit(text)
    if scheme == "roquet":
        return _with_options(parts)
    if scheme == "http":
        if parts.path.strip("/"):
            return Where(list_url=text)
        found = _INSTANCE.match(parts.netloc)
        return Where(parse_list(parts.netloc), namespace=found.group() if found else "")
    raise Misuse(f"{text!r}: {scheme}:// is not known", hint="use host:port, roquet:// or http://")


def parse_list(text: str) -> tuple[str, ...]:
    """Return the addresses of a list; raises Misuse that names the one that is none."""
    found = []
    for part in re.split(r"[;,\s]+", text.strip()):
        if not part:
            continue
        try:
            host, port = parse_address(part)
        except ValueError as error:
            raise Misuse(f"name servers: {error}", hint="write host:port, with ; between several") from None
        found.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    if not found:
        raise Misuse(f"{text!r} names no name server", hint="write host:port, with ; between several")
    return tuple(dict.fromkeys(found))


def _with_options(parts: SplitResult) -> Where:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in OPTIONS:
            raise Misuse(f"roquet:// has no option {name!r}", hint=f"there are {', '.join(OPTIONS)}")
    encoding = options.get("encoding", "json")
    if encoding not in ("json", "binary"):
        raise Misuse(f"encoding={encoding} is not known", hint="it is json or binary")
    return Where(
        parse_list(parts.netloc),
        namespace=options.get("namespace", ""),
        unit=options.get("unit", ""),
        instance=options.get("instance", ""),
        timeout_s=_seconds(options.get("timeout", "3")),
        encoding=cast(Encoding, encoding),
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86_400:
        raise Misuse(f"timeout={text} is no number of seconds", hint="write for example timeout=3")
    return seconds
