"""Class paths: Apache's jars by Maven profile, and our own Java programs compiled against them.

Maven is asked once for each profile of `compat/java/pom.xml`; the answer is kept under `.cache/java`, in a
file named after the pom's hash. Our sources are compiled by javac into a directory named after theirs. So a
later run starts neither. A missing Java or Maven raises `MissingTool`: such a test fails, it is not skipped.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
JAVA_PROJECT = ROOT / "compat" / "java"
CACHE = ROOT / ".cache" / "java"

CLIENT_VERSIONS = ("5.5.0", "4.9.8")
APACHE_VERSION = "5.5.0"
CLIENTS = JAVA_PROJECT / "clients"
TOOLS = JAVA_PROJECT / "tools"
SHARED = JAVA_PROJECT / "shared"
LOGBACK = JAVA_PROJECT / "logback.xml"

MAVEN_TIMEOUT_S = 480
JAVAC_TIMEOUT_S = 120

# Apache's servers reach into the JDK (direct buffers, mapped files); Java 17 wants that said.
OPENS = tuple(
    f"--add-{kind}=java.base/{package}=ALL-UNNAMED"
    for kind, packages in (
        (
            "opens",
            ("java.lang", "java.nio", "java.util", "java.util.concurrent", "jdk.internal.ref", "sun.nio.ch"),
        ),
        ("exports", ("jdk.internal.ref", "sun.nio.ch")),
    )
    for package in packages
)


class MissingTool(Exception):
    """A program that these tests need is not installed, or cannot do its work."""


def java() -> str:
    """Return the path of the Java launcher."""
    return _program("java", "install a JDK, version 17 or later")


def client_classpath(version: str) -> str:
    """Return the class path of the client programs on rocketmq-client of this version."""
    if version not in CLIENT_VERSIONS:
        raise ValueError(f"client version {version}: the pom has profiles for {', '.join(CLIENT_VERSIONS)}")
    jars = _resolved(f"client-{version}")
    return f"{_compiled(CLIENTS, f'client-{version}', jars)}{os.pathsep}{jars}"


def apache_classpath() -> str:
    """Return the class path of Apache's servers, mqadmin and benchmark programs."""
    return _resolved(f"apache-{APACHE_VERSION}")


def tools_classpath() -> str:
    """Return the class path of our mqadmin driver, with Apache's tools."""
    jars = apache_classpath()
    return f"{_compiled(TOOLS, 'tools', jars)}{os.pathsep}{jars}"


def program_classpath(sources: Path, name: str) -> str:
    """Return the class path of Java programs that are kept elsewhere, compiled against Apache's jars."""
    jars = apache_classpath()
    return f"{_compiled(sources, name, jars)}{os.pathsep}{jars}"


def _program(name: str, remedy: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise MissingTool(f"`{name}` is not on the PATH: {remedy}")
    return path


def project_classpath(pom: Path, profile: str) -> str:
    """Return the jars of a profile of a pom that is kept elsewhere."""
    return _resolved(profile, pom)


def _resolved(profile: str, pom: Path = JAVA_PROJECT / "pom.xml") -> str:
    """Return the jars of one profile, asking Maven only when no earlier answer is still good."""
    answer = CACHE / f"{profile}-{_digest([pom])}.classpath"
    if answer.exists():
        jars = answer.read_text()
        if all(Path(jar).exists() for jar in jars.split(os.pathsep)):
            return jars
    CACHE.mkdir(parents=True, exist_ok=True)
    fresh = answer.with_suffix(f".{os.getpid()}")
    maven = _program("mvn", "install Apache Maven 3.8 or later")
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
    _run(
        [maven, "-B", "-q", "-f", str(pom), "-P", profile, goal, f"-Dmdep.outputFile={fresh}"],
        MAVEN_TIMEOUT_S,
        f"Maven could not resolve the profile {profile} of {pom.relative_to(ROOT)}",
    )
    fresh.replace(answer)
    return answer.read_text()


def _compiled(sources: Path, name: str, jars: str) -> Path:
    """Return the directory with the classes of a source tree, compiling it when it has changed."""
    files = sorted([*sources.rglob("*.java"), *SHARED.rglob("*.java")])
    classes = CACHE / f"{name}-classes-{_digest([*files, JAVA_PROJECT / 'pom.xml'])}"
    if classes.exists():
        return classes
    fresh = classes.with_name(f"{classes.name}.{os.getpid()}")
    javac = _program("javac", "install a JDK, version 17 or later (not only a runtime)")
    _run(
        [javac, "--release", "17", "-Xlint:all,-deprecation,-processing,-classfile,-path", "-proc:none"]
        + ["-cp", jars, "-d", str(fresh), *map(str, files)],
        JAVAC_TIMEOUT_S,
        f"javac refused {sources.relative_to(ROOT)}",
    )
    try:
        fresh.rename(classes)
    except OSError:  # another run was quicker; its classes come from the same sources
        shutil.rmtree(fresh)
    return classes


def _digest(files: list[Path]) -> str:
    state = hashlib.sha256()
    for file in files:
        state.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return state.hexdigest()[:16]


def _run(argv: list[str], timeout_s: float, complaint: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s)
    if done.returncode != 0:
        raise MissingTool(f"{complaint}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
