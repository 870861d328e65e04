"""Our style, as far as a machine can see it; each rule says what to do instead.

Types, imports and formatting are left to mypy, import-linter and ruff. An exception to a rule stands in
a list here, with its reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
KERNELS = sorted((ROOT / "src").rglob("*.pyx"))
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])

SOURCE_LINES_MAX = 450
TEST_LINES_MAX = 600
FUNCTION_LINES_MAX = 70

VAGUE_WORDS = {
    *("Manager", "Impl", "Abstract", "Base", "Default", "Helper", "Util", "Utils", "Wrapper", "Factory"),
    *("Context", "Processor", "Service"),
}
VAGUE_FILES = {"common", "util", "utils", "helper", "helpers", "types", "base", "misc"}
# In two pieces each, so that this file does not find itself.
REMINDER = re.compile(r"\b(TO" r"DO|FIX" r"ME|HA" r"CK)\b")
MACHINE_PATH = re.compile(r"(?<![\w.])/(wo" r"rk|ro" r"ot|tm" r"p)/\w")
REGISTRY = re.compile(r"py" r"pi\.org|python" r"hosted|registry\.np" r"mjs|go" r"proxy")
SLEEP = re.compile(r"\btime\.sl" r"eep\(")
BARE_SILENCER = re.compile(r"#\s*(?:type: ig" r"nore|no" r"qa)(?![\[:\w])")

LONG_FUNCTIONS = {
    "src/roquet/broker/app.py:__init__": "the composition root names every part of the broker once",
}

GENERATED = {
    "src/roquet/sync.py": "one class after the other, written by roquet.client.describe_sync",
}
"""Files that `make docs` writes and `make check` compares: their length is nobody's work."""

PRINTERS = {"cli", "describe.py", "__main__.py"}  # programs that a person runs
"""Folders whose programs talk to people on the standard output."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def text_of(path: Path) -> str:
    return path.read_text()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path), name_of(path))


def complaints(paths: Iterable[Path], rule: Callable[[Path], Iterator[str]]) -> list[str]:
    """Return what the rule has to say about the files, one line each."""
    return [f"{name_of(path)}: {what}" for path in paths for what in rule(path)]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def matches(pattern: re.Pattern[str]) -> Callable[[Path], Iterator[str]]:
    """Return the rule that a file must not contain the pattern."""

    def rule(path: Path) -> Iterator[str]:
        for number, line in enumerate(text_of(path).splitlines(), 1):
            if pattern.search(line):
                yield f"line {number}: {line.strip()}"

    return rule


def test_a_module_says_what_it_is() -> None:
    def rule(path: Path) -> Iterator[str]:
        if text_of(path).strip() and not ast.get_docstring(tree_of(path)):
            yield "begin the file with a docstring"

    assert complaints(SOURCES + TESTS, rule) == []


def test_a_file_is_one_idea() -> None:
    def rule(path: Path) -> Iterator[str]:
        lines = len(text_of(path).splitlines())
        if name_of(path) in GENERATED:
            return
        if lines > (TEST_LINES_MAX if path in TESTS else SOURCE_LINES_MAX):
            yield f"{lines} lines: split it by idea"

    assert complaints(SOURCES + TESTS + KERNELS, rule) == []


def test_a_function_fits_on_a_screen() -> None:
    def rule(path: Path) -> Iterator[str]:
        for node in functions(path):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX and f"{name_of(path)}:{node.name}" not in LONG_FUNCTIONS:
                yield f"{node.name} has {lines} lines: split it"

    assert complaints(SOURCES, rule) == []


def test_names_say_what_a_thing_is() -> None:
    def rule(path: Path) -> Iterator[str]:
        if VAGUE_FILES & {part.removesuffix(".py").strip("_") for part in path.relative_to(ROOT).parts}:
            yield "a thing lives with the layer that it belongs to"
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef) and VAGUE_WORDS & set(re.findall("[A-Z][a-z0-9]*", node.name)):
                yield f"{node.name}: name the thing, not its role in a pattern"

    assert complaints(SOURCES + TESTS, rule) == []


def test_no_reminders_are_left() -> None:
    assert complaints(SOURCES + TESTS + KERNELS + PAGES, matches(REMINDER)) == [], "list it in the README"


def test_nothing_names_one_machine() -> None:
    everything = SOURCES + TESTS + KERNELS + PAGES
    assert complaints(everything, matches(MACHINE_PATH)) == []
    assert complaints(everything, matches(REGISTRY)) == [], "where packages come from is the user's choice"


def test_only_the_command_line_prints() -> None:
    def rule(path: Path) -> Iterator[str]:
        if PRINTERS & set(path.parts):
            return
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                yield f"line {node.lineno}: log it, or return it to whoever prints"

    assert complaints(SOURCES, rule) == []


def test_every_function_is_typed() -> None:
    def rule(path: Path) -> Iterator[str]:
        for node in functions(path):
            arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            bare = {each.arg for each in arguments if each.annotation is None} - {"self", "cls"}
            if bare or node.returns is None:
                yield f"{node.name}, line {node.lineno}: annotate the arguments and the result"

    assert complaints(SOURCES + TESTS, rule) == []


def test_a_silenced_check_is_named() -> None:
    assert complaints(SOURCES + TESTS, matches(BARE_SILENCER)) == []


def test_no_error_is_only_logged() -> None:
    def rule(path: Path) -> Iterator[str]:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ExceptHandler) and _catches_all(node) and all(map(_is_idle, node.body)):
                yield f"line {node.lineno}: catch what can happen, and do something about it"

    assert complaints(SOURCES, rule) == []


def _catches_all(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or (
        isinstance(handler.type, ast.Name) and handler.type.id in ("Exception", "BaseException")
    )


def _is_idle(statement: ast.stmt) -> bool:
    """True for `pass`, `...`, `continue` and a call of a logger."""
    if isinstance(statement, ast.Pass | ast.Continue):
        return True
    if not isinstance(statement, ast.Expr):
        return False
    call = statement.value
    return isinstance(call, ast.Constant) or (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id in ("log", "logger", "logging")
    )


def test_a_kernel_has_a_twin_types_and_a_check_that_it_loads() -> None:
    checked = text_of(ROOT / "tests" / "conftest.py")

    def rule(path: Path) -> Iterator[str]:
        twin = path.with_name(path.stem.removesuffix("_c") + "_py.py")
        if not twin.exists() or not path.with_suffix(".pyi").exists():
            yield f"write {twin.name} and {path.stem}.pyi"
        if ".".join(path.relative_to(ROOT / "src").with_suffix("").parts) not in checked:
            yield "add it to KERNELS of tests/conftest.py"

    assert complaints(KERNELS, rule) == []


def test_no_test_waits_by_the_clock() -> None:
    tests = [path for path in TESTS if path.name.startswith("test_")]
    assert complaints(tests, matches(SLEEP)) == [], "wait for a condition, with a bound"


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "src" / "roquet" / "py.typed").exists()


def test_the_exceptions_are_still_needed() -> None:
    names = {f"{name_of(path)}:{node.name}" for path in SOURCES for node in functions(path)}
    assert set(LONG_FUNCTIONS) <= names
    assert set(GENERATED) <= {name_of(path) for path in SOURCES}
