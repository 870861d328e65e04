"""`roquet pipeline …`: work with Spark that runs as it is: archive, replay, dead-letters, trace, lag, audit.

Each command is made from its pipeline's own arguments (`roquet.spark.pipelines.arguments`), so that it and the
file for spark-submit never differ. Spark is imported when a pipeline runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from roquet.spark.options import OptionError
from roquet.spark.pipelines import HOMES, load
from roquet.spark.pipelines.arguments import Argument, arguments_of, build

app = typer.Typer(
    no_args_is_help=True,
    help="Pipelines with Spark: archive, replay, dead letters, traces, lag, audit. Needs roquet[spark].",
)


def _parameter(argument: Argument) -> inspect.Parameter:
    hint: Any
    default: Any
    if argument.is_switch:
        hint, default = Annotated[bool, typer.Option(argument.flag, help=argument.doc)], False
    else:
        shown = "" if argument.is_required or argument.default in (None, "", ()) else _shown(argument.default)
        option = typer.Option(argument.flag, help=argument.doc, show_default=shown or False)
        hint, default = Annotated[str | None, option], None
    return inspect.Parameter(argument.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _shown(default: Any) -> str:
    return ",".join(default) if isinstance(default, tuple) else str(default)


def _command(pipeline: type[Any]) -> Callable[..., None]:
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


for _name in HOMES:
    _pipeline = load(_name)
    app.command(_name, help=_pipeline.__doc__)(_command(_pipeline))
