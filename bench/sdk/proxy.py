"""What the gRPC client needs: Apache's proxy beside a broker, and an environment with the package in it.

    rocketmq-python-client ──gRPC──▶ proxy ──remoting──▶ Apache's broker

The proxy runs in a JVM of its own, in cluster mode, as `mqproxy` starts it. The package goes into a virtual
environment under `.cache/bench`, since its dependencies are not ours. Whatever cannot be had is told in words
(`Missing`), and the table says so instead of a number. Reference: distribution/bin/mqproxy, 5.5.0.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from bench.oldstore import CACHE
from bench.servers import GIB, NAMES_TIMEOUT_S
from tests.peers import jars
from tests.peers.child import Child, ChildError
from tests.peers.ports import accepts, free_port

PACKAGE = "rocketmq-python-client==5.1.2"
POM = Path(__file__).parents[1] / "java" / "pom.xml"
PROXY_JVM = ["-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC", f"-XX:MaxDirectMemorySize={GIB}"]
PIP_TIMEOUT_S = 300
REASON_CHARS_MAX = 300
START_ATTEMPTS = 3


class Missing(Exception):
    """The package, or the proxy, cannot be run here; says why."""


class Proxy(NamedTuple):
    process: Child
    address: str


def client_python() -> Path:
    """Return the interpreter of the package's environment, making it when there is none; raises Missing."""
    folder = CACHE / PACKAGE.replace("==", "-")
    python, done = folder / "bin" / "python", folder / "installed"
    if done.exists():
        return python
    _install([sys.executable, "-m", "venv", "--clear", str(folder)])
    _install([str(python), "-m", "pip", "install", "--quiet", PACKAGE])
    done.touch()
    return python


def start(namesrv: str, home: Path) -> Proxy:
    """Start the proxy and wait until it accepts connections; raises Missing."""
    try:
        classpath = jars.project_classpath(POM, f"proxy-{jars.APACHE_VERSION}")
    except jars.MissingTool as error:
        raise Missing(_short(error)) from None
    # It makes a topic at its start and dies when a broker that has just started does not answer in time.
    for attempt in range(START_ATTEMPTS):
        try:
            return _started(classpath, namesrv, home / str(attempt))
        except ChildError as error:
            complaint = _short(error)
    raise Missing(complaint)


def _started(classpath: str, namesrv: str, home: Path) -> Proxy:
    home.mkdir(parents=True, exist_ok=True)
    port = free_port()
    settings = {
        "rocketMQClusterName": "DefaultCluster",
        "namesrvAddr": namesrv,
        "grpcServerPort": port,
        "remotingListenPort": free_port(),
        "localServeAddr": "127.0.0.1",
        "enablePrintJstack": False,
    }
    conf = home / "rmq-proxy.json"
    conf.write_text(json.dumps(settings))
    address = f"127.0.0.1:{port}"
    process = Child("proxy of apache", _argv(classpath, conf, home), home / "proxy.out", _environment(home))
    try:
        process.wait_until(lambda: accepts(address), f"listening on {address}", NAMES_TIMEOUT_S)
    except BaseException:
        process.kill()
        raise
    return Proxy(process, address)


def _short(error: Exception) -> str:
    """Return an error on one line, cut where a reader has seen enough."""
    return " ".join(str(error).split())[:REASON_CHARS_MAX]


def _argv(classpath: str, conf: Path, home: Path) -> list[str]:
    places = [
        f"-Duser.home={home}",
        f"-Drocketmq.home.dir={home}",
        f"-Drmq.logback.configurationFile={jars.LOGBACK}",
        "-Djava.net.preferIPv4Stack=true",
    ]
    main = "org.apache.rocketmq.proxy.ProxyStartup"
    return [jars.java(), *PROXY_JVM, *places, *jars.OPENS, "-cp", classpath, main, "-pc", str(conf)]


def _environment(home: Path) -> dict[str, str]:
    return {"ROCKETMQ_HOME": str(home), "RMQ_PROXY_HOME": str(home)}


def _install(argv: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PIP_TIMEOUT_S, env=environment)
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()
        raise Missing(f"{PACKAGE} cannot be installed: {' '.join(words[-3:])[:REASON_CHARS_MAX]}")
