"""Options and arguments that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Target = Annotated[str, typer.Option("--target", help="TPU generation: v4 v5e v5p v6e v7x.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Unsafe = Annotated[
    bool,
    typer.Option("--unsafe-no-sandbox", help="Run kernels without a sandbox if there is none."),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Ignore earlier answers.")]
Weak = Annotated[
    bool,
    typer.Option("--allow-weak-task", help="Also judge a task that `maxkernel lint` refuses."),
]
TaskArgument = Annotated[str, typer.Argument(metavar="TASK", help="Task file or folder.")]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Run name, a unique start of it, `last`, or a path.")
]
