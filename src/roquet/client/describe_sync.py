"""Writes `roquet/sync.py`: the synchronous face of the client's classes, from their own source.

    python -m roquet.client.describe_sync | ruff …  > src/roquet/sync.py         (see `make docs`)

Signatures and first lines of docstrings are copied from the source, so names, types and defaults cannot
drift; `make check` compares. What becomes of a method depends on what it is:

    async def            waits for it                      async iterator      an iterator
    def                  runs on the loop                  asyncio.Future      a concurrent one
    property             read on the loop                  another FACE        that one's synchronous face
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

Method = ast.FunctionDef | ast.AsyncFunctionDef
METHODS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class Face(NamedTuple):
    """A class to write a face for."""

    module: str
    name: str
    left_out: frozenset[str] = frozenset()
    """Public names that are for other parts of the client."""
    in_threads: Mapping[str, str] = {}
    """Arguments that are functions of the user, and the type that they have here: they run in threads."""
    attributes: Mapping[str, str] = {}
    """Plain attributes that users read, with their types."""
    is_made_by_users: bool = True
    delivers: bool = False
    """Its messages are acknowledged, so they get a face too; all others are only read."""


MEMBER: Final = frozenset({"beat", "topics", "route_changed"})
"""What the cluster asks of producers and consumers."""

MESSAGE: Final = Face(
    "roquet.client.message", "Message", attributes={"broker": "str"}, is_made_by_users=False, delivers=True
)
ADMIN: Final = Face("roquet.client.admin.admin", "Admin")
FACES: Final = (
    MESSAGE,
    Face(
        "roquet.client.cluster.cluster",
        "Cluster",
        frozenset({"answer", "unanswer", "join", "leave", "spawn", "check", "ids", "beat", "beat_soon"}),
        attributes={"namespace": "str", "timeout_s": "float"},
    ),
    Face("roquet.client.producer.transaction", "Half", is_made_by_users=False),
    Face(
        "roquet.client.producer.producer",
        "Producer",
        MEMBER,
        {"check": "Callable[[AsyncMessage], Outcome] | None"},
        {"group": "str"},
    ),
    Face(
        "roquet.client.consumer.consumer",
        "Consumer",
        in_threads={"handler": "Callable[[Message], object] | None"},
        attributes={"group": "str"},
        delivers=True,
    ),
    Face("roquet.client.reader.follow", "Follow", frozenset({"start", "aclose"}), is_made_by_users=False),
    Face("roquet.client.reader.reader", "Reader"),
    ADMIN,
)
HERE: Final = {"Callable": "from collections.abc import Callable"}
"""Where the names come from that only this module brings in."""


PREFACE: Final = '''"""The client for synchronous code: the same objects over one background event loop.

    with roquet.sync.Producer("127.0.0.1:9876", group="shop") as producer:
        receipt = producer.send("orders", b"...", tag="created", keys=["42"])

Written by `roquet.client.describe_sync` from the asynchronous classes, whose docstrings say more: do not
edit, run `make docs`. Every object may be used from several threads. Functions that you hand in (handlers,
checks) run in threads of their own.
"""

from __future__ import annotations
'''


class Source:
    """One module: its syntax tree, and where the names in it come from."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.tree = ast.parse(inspect.getsource(importlib.import_module(module)))
        self.homes = dict(self._imports())

    def _imports(self) -> Iterator[tuple[str, str]]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    name = alias.asname or alias.name
                    yield (
                        name,
                        f"from {node.module} import {alias.name} as {name}".removesuffix(f" as {alias.name}"),
                    )
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name, f"import {alias.name}"

    def import_of(self, name: str) -> str:
        """Return the line that brings a name of this module into another."""
        return self.homes.get(name, f"from {self.module} import {name}")

    def find(self, name: str) -> ast.ClassDef:
        return next(node for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def parts_of_admin() -> dict[str, Face]:
    """Return the parts of the admin by their names, from the lines of its constructor."""
    source = Source(ADMIN.module)
    parts = {}
    for node in ast.walk(source.find(ADMIN.name)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            target, made = node.targets[0], node.value.func
            if (
                isinstance(target, ast.Attribute)
                and not target.attr.startswith("_")
                and isinstance(made, ast.Name)
            ):
                module = source.import_of(made.id).split()[1]
                parts[target.attr] = Face(module, made.id, is_made_by_users=False)
    return parts


class Writer:
    """Collects the text of the classes and the imports that it needs."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.parts = parts_of_admin()
        self.faces = (*self.parts.values(), *FACES)
        self.names = frozenset(face.name for face in self.faces)
        self.homes: dict[str, str] = {}
        for name in ("Blocking", "BlockingBlock", "in_thread"):
            self._import(name, f"from roquet.client.blocking import {name}")

    def write_all(self) -> str:
        """Return the whole module."""
        for face in self.faces:
            self._write_class(face, Source(face.module))
        everything = ", ".join(f'"{face.name}"' for face in FACES)
        return "\n".join([PREFACE, *self.homes.values(), f"\n__all__ = [{everything}]\n", *self.lines, ""])

    def _import(self, name: str, line: str, owner: str = "") -> str:
        """Bring a name in and return what it is called here: another one where two modules share it."""
        if self.homes.setdefault(name, line) == line:
            return name
        assert owner, f"two things are called {name}: {self.homes[name]!r} and {line!r}"
        return self._import(f"{owner.upper()}_{name}", f"{line} as {owner.upper()}_{name}")

    # --- classes and methods

    def _write_class(self, face: Face, source: Source) -> None:
        node = source.find(face.name)
        methods = {each.name: each for each in node.body if isinstance(each, METHODS)}
        base = "BlockingBlock" if "__aenter__" in methods else "Blocking"
        self._import(f"Async{face.name}", f"from {face.module} import {face.name} as Async{face.name}")
        self.lines += ["", "", f"class {face.name}({base}[Async{face.name}]):", *_doc(node, 4)]
        if face.is_made_by_users:
            self._write_init(face, source, methods["__init__"])
        for name, kind in face.attributes.items():
            self._write_property(name, kind, f"self._inner.{name}")
        for name, part in self.parts.items() if face is ADMIN else ():
            self._write_property(name, part.name, f"{part.name}.around(self._inner.{name}, self._background)")
        for name, method in methods.items():
            if name == "__aiter__":
                self._write_iter(face, source)
            elif not name.startswith("_") and name not in face.left_out:
                self._write_method(face, source, method)

    def _write_init(self, face: Face, source: Source, method: Method) -> None:
        signature = self._signature(face, source, method)
        self.lines += ["", f"    def __init__({signature}) -> None:"]
        self.lines += [f"        super().__init__(lambda: Async{face.name}({self._passed(face, method)}))"]

    def _write_property(self, name: str, kind: str, value: str, doc: Sequence[str] = ()) -> None:
        self.lines += [
            "",
            "    @property",
            f"    def {name}(self) -> {kind}:",
            *doc,
            f"        return {value}",
        ]

    def _write_iter(self, face: Face, source: Source) -> None:
        value = self._lifted(face, MESSAGE.name, "self._iterate(lambda: self._inner)", "each")
        item = self._type(face, source, ast.Name(MESSAGE.name))
        self._import("Iterator", "from collections.abc import Iterator")
        self.lines += ["", f"    def __iter__(self) -> Iterator[{item}]:", f"        return {value}"]

    def _write_method(self, face: Face, source: Source, method: Method) -> None:
        assert method.returns is not None
        if any(isinstance(each, ast.Name) and each.id == "property" for each in method.decorator_list):
            kind = self._type(face, source, method.returns)
            value = f"self._inner.{method.name}"
            if face is not MESSAGE:  # which never changes; all others are for the loop's thread alone
                value = f"self._call(lambda: {value})"
            self._write_property(method.name, kind, value, _doc(method, 8))
            return
        signature = self._signature(face, source, method)
        result, value = self._outcome(face, source, method)
        self.lines += ["", f"    def {method.name}({signature}) -> {result}:", *_doc(method, 8)]
        self.lines.append(f"        return {value}" if result != "None" else f"        {value}")

    def _outcome(self, face: Face, source: Source, method: Method) -> tuple[str, str]:
        """Return the type of a method's result here, and the expression that gives it."""
        assert method.returns is not None
        call = f"self._inner.{method.name}({self._passed(face, method)})"
        outer, inside = ast.unparse(method.returns).partition("[")[0], _inside(method.returns)
        if outer in ("AsyncIterator", "AsyncIterable", "AsyncGenerator"):
            self._import("Iterator", "from collections.abc import Iterator")
            item = self._type(face, source, ast.parse(inside, mode="eval").body)
            return f"Iterator[{item}]", self._lifted(face, inside, f"self._iterate(lambda: {call})", "each")
        if outer == "asyncio.Future":
            self._import("concurrent", "import concurrent.futures")
            item = self._type(face, source, ast.parse(inside, mode="eval").body)
            return f"concurrent.futures.Future[{item}]", f"self._start(lambda: {call})"
        is_async = isinstance(method, ast.AsyncFunctionDef)
        run = f"self._run({call})" if is_async else f"self._call(lambda: {call})"
        return self._type(face, source, method.returns), self._lifted(face, ast.unparse(method.returns), run)

    def _lifted(self, face: Face, kind: str, value: str, each: str = "") -> str:
        """Return the expression whose asynchronous results have got their synchronous faces."""
        made = ""
        if kind in self.names and (kind != MESSAGE.name or face.delivers):
            made = f"{kind}.around({each or value}, self._background)"
        elif kind == f"list[{MESSAGE.name}]" and face.delivers:
            made = f"[{MESSAGE.name}.around(one, self._background) for one in {each or value}]"
        if not each or not made:
            return made or value
        return f"({made} for {each} in {value})"

    # --- signatures and types

    def _signature(self, face: Face, source: Source, method: Method) -> str:
        copy = ast.parse(ast.unparse(method)).body[0]
        assert isinstance(copy, METHODS)
        arguments = copy.args
        for default in (*arguments.defaults, *arguments.kw_defaults):
            self._need(face, source, default)
        for each in (*arguments.args[1:], *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
            if each is None or each.annotation is None:
                continue
            text = face.in_threads.get(each.arg) or self._type(face, source, each.annotation)
            if ast.unparse(each.annotation) == MESSAGE.name and not face.delivers:
                text = f"{MESSAGE.name} | Async{MESSAGE.name}"
            each.annotation = ast.parse(text, mode="eval").body
            self._need(face, source, each.annotation)
        return ast.unparse(arguments)

    def _passed(self, face: Face, method: Method) -> str:
        """Return the arguments as they are passed on, faces replaced by what is behind them."""
        arguments = method.args
        words = [self._bare(face, each) for each in arguments.args[1:]]
        if arguments.vararg is not None:
            words.append(f"*{arguments.vararg.arg}")
        words += [f"{each.arg}={self._bare(face, each)}" for each in arguments.kwonlyargs]
        if arguments.kwarg is not None:
            words.append(f"**{arguments.kwarg.arg}")
        return ", ".join(words)

    def _bare(self, face: Face, argument: ast.arg) -> str:
        name = argument.arg
        if name in face.in_threads:
            faced = f"lambda one: {MESSAGE.name}.around(one, self._background)" if face.delivers else "None"
            return f"in_thread({name}, {faced})"
        kinds = ast.unparse(argument.annotation).split(" | ") if argument.annotation is not None else []
        faced = next((kind for kind in kinds if kind in self.names), "")
        return f"{name}._inner if isinstance({name}, {faced}) else {name}" if faced else name

    def _type(self, face: Face, source: Source, annotation: ast.expr) -> str:
        """Return an annotation as it is here; messages that are only read stay what they are."""
        copy = ast.parse(ast.unparse(annotation), mode="eval")
        for each in ast.walk(copy):
            if isinstance(each, ast.Name) and each.id == MESSAGE.name and not face.delivers:
                each.id = f"Async{MESSAGE.name}"
        self._need(face, source, copy)
        return ast.unparse(copy)

    def _need(self, face: Face, source: Source, node: ast.AST | None) -> None:
        """Import every name of an annotation or a default, and put in what it is called here."""
        for each in ast.walk(node) if node is not None else ():
            if not isinstance(each, ast.Name) or hasattr(builtins, each.id):
                continue
            if each.id not in self.names and each.id.removeprefix("Async") not in self.names:
                each.id = self._import(each.id, HERE.get(each.id) or source.import_of(each.id), face.name)


def _inside(annotation: ast.expr) -> str:
    """Return what stands between the brackets of a type, without a generator's second type."""
    return ast.unparse(annotation).partition("[")[2].removesuffix("]").removesuffix(", None")


def _doc(node: ast.ClassDef | Method, indent: int) -> list[str]:
    """Return the first line of a docstring, for code that waits."""
    text = ast.get_docstring(node) or ""
    if not text:
        return []
    first = text.splitlines()[0].replace("`async with`", "`with`").replace("`await send`", "`send`")
    return [f'{" " * indent}"""{first}"""']


if __name__ == "__main__":
    sys.stdout.write(Writer().write_all())
