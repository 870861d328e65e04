"""Captures frames from a live Apache name server and broker into `tests/golden/frames/`.

    python -m tests.golden.capture.frames --home DIR [--into tests/golden]
Starts the pair, puts the frame-logging proxy in front of both, lets the Java client and mqadmin work through
it, asks the rest by raw sockets, then once more the four requests that show the binary header encoding, with
servers that speak it. `DIR` shows up inside some answers (settings, disk use), so take a plain one.
"""

import argparse
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.golden.capture import admin_cases, broker_cases
from tests.golden.capture.album import JAVA, Album, write_manifest
from tests.golden.capture.names_cases import ask_names
from tests.golden.capture.proxy import Proxy
from tests.golden.capture.raw import BINARY_TYPE, Exchange, Wire
from tests.golden.capture.servers import STOP_TIMEOUT_S, java, start_broker, start_names

NAMES_PORT, BROKER_PORT = 19876, 20911
CLIENT = Path(__file__).with_name("Client.java")
JAVA_TIMEOUT_S = 120.0

# What the Java client and the broker send by themselves; one exchange of each is kept.
TO_BROKER = {
    10: "send_message",
    11: "pull_message",
    14: "query_consumer_offset",
    15: "update_consumer_offset",
    30: "get_max_offset",
    34: "heart_beat",
    35: "unregister_client",
    36: "consumer_send_msg_back",
    37: "end_transaction",
    38: "get_consumer_list_by_group",
    40: "notify_consumer_ids_changed",
    41: "lock_batch_mq",
    42: "unlock_batch_mq",
    307: "get_consumer_running_info",
    310: "send_message_v2",
    320: "send_batch_message",
    361: "lite_pull_message",
}
TO_NAMES = {
    103: "register_broker",
    104: "unregister_broker",
    105: "get_routeinfo_by_topic",
    106: "get_broker_cluster_info",
    206: "get_all_topic_list_from_nameserver",
}


@contextmanager
def proxied_pair(home: Path) -> Iterator[tuple[Proxy, Proxy]]:
    """Run a fresh pair that is reached, and reaches each other, through proxies on 127.0.0.2."""
    shutil.rmtree(home, ignore_errors=True)
    names_proxy = Proxy(f"127.0.0.2:{NAMES_PORT}", f"127.0.0.1:{NAMES_PORT}")
    broker_proxy = Proxy(f"127.0.0.2:{BROKER_PORT}", f"127.0.0.1:{BROKER_PORT}")
    try:
        names = start_names(home / "namesrv", NAMES_PORT)
        try:
            settings = {"brokerIP1": "127.0.0.2", "brokerIP2": "127.0.0.2"}
            broker = start_broker(home / "broker", f"127.0.0.2:{NAMES_PORT}", BROKER_PORT, settings)
            try:
                # The port opens before the first full registration has arrived; until then the name server
                # refuses the registration of a single new topic.
                asking = Wire(f"127.0.0.1:{NAMES_PORT}")
                broker_cases.until(
                    lambda: asking.ask(105, {"topic": "TBW102"}), lambda one: one.header.code == 0
                )
                asking.close()
                yield names_proxy, broker_proxy
            finally:
                broker.stop(STOP_TIMEOUT_S)
        finally:
            names.stop(STOP_TIMEOUT_S)
    finally:
        names_proxy.close()
        broker_proxy.close()


@contextmanager
def java_client(home: Path) -> Iterator[None]:
    """Run `Client.java` until its consumers are online; it leaves at the end of the block."""
    command = [*java(home, 256), str(CLIENT), f"127.0.0.2:{NAMES_PORT}"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == b"online":
                break
        else:
            raise RuntimeError("the Java client ended before it was online")
        yield
        process.communicate(b"\n", JAVA_TIMEOUT_S)
    finally:
        process.kill()
        process.wait()


def mqadmin(home: Path, *arguments: str) -> None:
    """Run one command of Apache's mqadmin through the proxy; its frames are what counts."""
    main = "org.apache.rocketmq.tools.command.MQAdminStartup"
    command = [*java(home, 128), main, *arguments, "-n", f"127.0.0.2:{NAMES_PORT}"]
    subprocess.run(command, check=True, timeout=JAVA_TIMEOUT_S, stdout=subprocess.DEVNULL)


def keep_java(album: Album, proxy: Proxy, wanted: dict[int, str]) -> None:
    """Keep one exchange of each wanted code that passed the proxy, the first successful one if any was."""
    for code, name in wanted.items():
        seen = proxy.exchanges(code)
        good = [taken for taken in seen if taken.response and taken.header.code == 0]
        if chosen := (good or seen)[:1]:
            album.keep(name, chosen[0], "java", JAVA)


def keep_java_variants(album: Album, proxy: Proxy) -> None:
    """Keep the sends that differ by what the application asked for."""
    for word, variant in (
        (b"DELAY\\u0001", "java-delay"),
        (b"TIMER_DELAY_MS", "java-timer"),
        (b"TRAN_MSG", "java-half"),
    ):
        found = [taken for taken in proxy.exchanges(310) if word in taken.request]
        album.keep("send_message_v2", found[0], variant, JAVA)
    large = max(proxy.exchanges(310), key=lambda taken: b'"f":"769"' in taken.request)
    album.keep("send_message_v2", large, "java-compressed", JAVA)
    oneway = [taken for taken in proxy.exchanges(310) if b'"flag":2' in taken.request]
    album.keep("send_message_v2", Exchange(oneway[0].request, b""), "java-oneway", JAVA)
    consumers = [taken for taken in proxy.exchanges(34) if b"java_push" in taken.request]
    album.keep("heart_beat", consumers[0], "java-consumer", JAVA)


def capture_json(home: Path, album: Album) -> None:
    """Capture everything that a pair with default settings answers."""
    with proxied_pair(home) as (names_proxy, broker_proxy):
        broker = Wire(f"127.0.0.1:{BROKER_PORT}")
        broker_cases.ask_sends(broker, album)
        broker_cases.ask_membership(broker, album)
        broker_cases.ask_pulls(broker, album)
        broker_cases.ask_queries(broker, album)
        admin_cases.ask_groups(broker, album)
        with java_client(home / "client"):
            admin_cases.ask_java_consumer(broker, album)
            mqadmin(home / "client", "topicList")
        admin_cases.ask_progress(broker, album)
        admin_cases.ask_pops(broker, album)
        admin_cases.ask_state(broker, album)
        admin_cases.ask_leave(broker, album)
        names = Wire(f"127.0.0.1:{NAMES_PORT}")
        ask_names(names, album, broker_cases.TOPIC)
        broker.close()
        names.close()
    keep_java(album, broker_proxy, TO_BROKER)
    keep_java_variants(album, broker_proxy)
    keep_java(album, names_proxy, TO_NAMES)


def capture_binary(home: Path, album: Album) -> None:
    """Capture requests and answers with binary headers, from servers set to that encoding."""
    os.environ["ROCKETMQ_SERIALIZE_TYPE"] = "ROCKETMQ"
    try:
        with proxied_pair(home) as (names_proxy, _):
            broker, names = Wire(f"127.0.0.1:{BROKER_PORT}"), Wire(f"127.0.0.1:{NAMES_PORT}")
            sent = broker.ask(310, broker_cases.send_fields(1), b"hello", kind=BINARY_TYPE)
            album.keep("send_message_v2", sent, "rocketmq")
            queue = {"topic": broker_cases.TOPIC, "queueId": 0}
            album.keep(
                "get_max_offset",
                broker_cases.until(
                    lambda: broker.ask(30, queue, kind=BINARY_TYPE),
                    lambda one: one.header.fields["offset"] == "1",
                ),
                "rocketmq",
            )
            pull = {
                "consumerGroup": broker_cases.GROUP,
                **queue,
                "queueOffset": 0,
                "maxMsgNums": 32,
                "sysFlag": 4,
            }
            pull |= {"commitOffset": 0, "suspendTimeoutMillis": 1000, "subscription": "*", "subVersion": 0}
            album.keep("pull_message", broker.ask(11, pull, kind=BINARY_TYPE), "rocketmq")
            album.keep("get_max_offset", broker.ask(30, queue), "rocketmq-json-request")
            album.keep("unknown", broker.ask(9999, kind=BINARY_TYPE), "rocketmq")
            route = names.ask(105, {"topic": broker_cases.TOPIC}, kind=BINARY_TYPE)
            album.keep("get_routeinfo_by_topic", route, "rocketmq")
            broker.close()
            names.close()
        keep = names_proxy.exchanges(103)[0]
        album.keep("register_broker", keep, "java-rocketmq", JAVA)
    finally:
        del os.environ["ROCKETMQ_SERIALIZE_TYPE"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--home", type=Path, required=True, help="folder for the servers' files; emptied first"
    )
    parser.add_argument("--into", type=Path, default=Path(__file__).resolve().parents[1])
    options = parser.parse_args()
    album = Album(options.into / "frames")
    capture_json(options.home / "json", album)
    capture_binary(options.home / "binary", album)
    write_manifest(options.into / "manifest.json", "frames", album.rows)
    print(f"{len(album.rows)} exchanges")


if __name__ == "__main__":
    main()
