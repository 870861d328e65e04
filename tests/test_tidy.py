"""Our style, as far as a machine can see it; each rule says what to do instead.

Types, imports and formatting are left to mypy, import-linter and ruff. An exception to a rule stands in
a list here, with its reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
KERNELS = sorted((ROOT / "src").rglob("*.pyx"))
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])

FILE_LINES_MAX = 450
TEST_LINES_MAX = 600
FUNCTION_LINES_MAX = 70

BANNED_WORDS = frozenset(
    "Manager Impl Abstract Base Default Helper Util Utils Wrapper Factory Context Processor Service".split()
)
BANNED_PARTS = frozenset(["common", "util", "utils", "helper", "helpers", "types", "base", "misc"])
REMINDERS = re.compile(r"\b(TO" r"DO|FIX" r"ME|HA" r"CK)\b")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(work|root|home|tm" r"p)/\w")
HOSTED_BY_A_MACHINE = re.compile(r"pypi\.org|files\.pythonhosted|npm\.js|goproxy", re.IGNORECASE)

LONG_FUNCTIONS: dict[str, str] = {}
"""Functions past the limit, by `file:name`, with the reason."""

PRINTERS = ("cli", "spark")
"""Folders whose programs talk to people on the standard output."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), name_of(path))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


every_source = pytest.mark.parametrize("path", SOURCES, ids=name_of)
every_file = pytest.mark.parametrize("path", SOURCES + TESTS, ids=name_of)


@every_file
def test_a_module_says_what_it_is(path: Path) -> None:
    text = ast.get_docstring(tree_of(path))
    assert text or not path.read_text().strip(), "begin the file with a docstring"


@every_file
def test_a_file_is_one_idea(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    limit = FILE_LINES_MAX if path in SOURCES else TEST_LINES_MAX
    assert lines <= limit, f"{lines} lines: split the file by idea"


@every_source
def test_a_function_fits_on_a_screen(path: Path) -> None:
    long = [
        f"{node.name} has {node.end_lineno - node.lineno + 1} lines"
        for node in functions(tree_of(path))
        if node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
        and f"{name_of(path)}:{node.name}" not in LONG_FUNCTIONS
    ]
    assert not long, "split the function"


@every_file
def test_names_say_what_a_thing_is(path: Path) -> None:
    classes = [node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]
    vague = [name for name in classes if BANNED_WORDS & set(re.findall("[A-Z][a-z0-9]*", name))]
    assert not vague, "name the thing, not its role in a pattern"
    assert not BANNED_PARTS & {part.removesuffix(".py").strip("_") for part in path.relative_to(ROOT).parts}


@pytest.mark.parametrize("path", SOURCES + TESTS + KERNELS + PAGES, ids=name_of)
def test_nothing_is_left_over(path: Path) -> None:
    text = path.read_text()
    assert not REMINDERS.search(text), "do it, or list it in the README as missing"
    assert not MACHINE_PATHS.search(text), "this path exists on one machine only"
    assert not HOSTED_BY_A_MACHINE.search(text), "where packages come from is the user's choice"


@every_source
def test_only_the_command_line_prints(path: Path) -> None:
    if path.relative_to(ROOT / "src" / "roquet").parts[0] in PRINTERS:
        return
    calls = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
    printing = [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]
    assert not printing, "log it, or return it to whoever prints"


@every_source
def test_every_function_is_typed(path: Path) -> None:
    bare = []
    for node in functions(tree_of(path)):
        arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
        untyped = [each.arg for each in arguments if each.annotation is None and each.arg not in ("self", "cls")]
        if untyped or node.returns is None:
            bare.append(f"{node.name}, line {node.lineno}")
    assert not bare, "annotate the arguments and the result"


@every_file
def test_a_silenced_check_is_named(path: Path) -> None:
    bare = re.findall(r"#\s*(?:type: ignore|noqa)(?![\[:])", path.read_text())
    assert not bare, "say which check: type: ignore[code], noqa: CODE"


@every_source
def test_no_error_is_only_logged(path: Path) -> None:
    lazy = [
        node.lineno
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ExceptHandler) and _catches_all(node) and all(map(_is_idle, node.body))
    ]
    assert not lazy, "catch what can happen, and do something about it"


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


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "src" / "roquet" / "py.typed").exists()


@pytest.mark.parametrize("path", KERNELS, ids=name_of)
def test_a_kernel_has_a_twin_types_and_a_check_that_it_loads(path: Path) -> None:
    stem = path.stem.removesuffix("_c")
    assert (path.parent / f"{stem}_py.py").exists() and path.with_suffix(".pyi").exists()
    module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    assert module in (ROOT / "tests" / "conftest.py").read_text()


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("test_*.py")), ids=name_of)
def test_no_test_waits_by_the_clock(path: Path) -> None:
    assert not re.search(r"\btime\.sl" r"eep\(", path.read_text()), "wait for a condition, with a bound"
