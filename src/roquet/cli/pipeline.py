"""`roquet pipeline …`: work with Spark that runs as it is: archive, replay, dead-letters, trace, lag, audit.

Each command is made from its pipeline's own arguments (`roquet.spark.pipelines.arguments`), so that it and
the file for spark-submit never differ. A pipeline is imported when it is named, Spark when it runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from roquet.spark.pipelines import HOMES, load


class Pipelines(TyperGroup):
    """The commands, each made when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(HOMES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in HOMES:
            return None
        alone = typer.Typer(add_completion=False)
        pipeline = load(cmd_name)
        alone.command(cmd_name, help=pipeline.__doc__)(_command(pipeline))
        return typer.main.get_command(alone)


app = typer.Typer(cls=Pipelines, no_args_is_help=True)


@app.callback()
def pipelines() -> None:
    """Pipelines with Spark: archive, replay, dead letters, traces, lag, audit. Needs the extra `spark`."""


def _command(pipeline: type[Any]) -> Callable[..., None]:
    from roquet.spark.options import OptionError
    from roquet.spark.pipelines.arguments import arguments_of, build

    def command(**given: Any) -> None:
        from roquet.spark.pipelines.program import USAGE, execute

        as_json = given.pop("as_json")
        texts = {name: value for name, value in given.items() if value is not None and value is not False}
        try:
            made = build(pipeline, texts)
        except OptionError as error:
            typer.echo(f"roquet: {error}", err=True)
            raise typer.Exit(USAGE) from None
        raise typer.Exit(execute(made, as_json))

    json_hint = Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")]
    parameters = [_parameter(each) for each in arguments_of(pipeline)]
    parameters.append(
        inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=json_hint)
    )
    # typer reads a function's signature: this one is made of the pipeline's fields.
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _parameter(argument: Any) -> inspect.Parameter:
    hint: Any
    default: Any
    if argument.is_switch:
        hint, default = Annotated[bool, typer.Option(argument.flag, help=argument.doc)], False
    else:
        shown = "" if argument.is_required or not argument.default else _shown(argument.default)
        doc = f"{argument.doc} Required." if argument.is_required else argument.doc
        option = typer.Option(*argument.flags, help=doc, show_default=shown or False)
        hint, default = Annotated[str | None, option], None
    return inspect.Parameter(argument.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _shown(default: Any) -> str:
    if isinstance(default, timedelta):
        return f"{default.total_seconds():g}s"
    return ",".join(default) if isinstance(default, tuple) else str(default)
