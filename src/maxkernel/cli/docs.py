"""`maxkernel docs`: the guide and the installed jax, for people."""

from __future__ import annotations

from rich.padding import Padding
from rich.text import Text

from maxkernel.cli import tables
from maxkernel.cli.commands import print_json
from maxkernel.config import load_settings
from maxkernel.errors import EXIT_ACCEPTED, EXIT_REFUSED, UsageError
from maxkernel.knowledge import open_library

HITS = 8
"""Results that are shown."""


def run_docs(query: str, read: str | None, as_json: bool) -> int:
    """Search results, or the text of one entry; exit status 1 when nothing is found."""
    if bool(query) == (read is not None):
        raise UsageError("give words to look for, or --read ID", "maxkernel docs block shape")
    library = open_library(load_settings())
    try:
        if read is not None:
            return _read(read, library.read_doc(read), as_json)
        hits = library.search_docs(query, HITS)
    finally:
        library.close()
    status = EXIT_ACCEPTED if hits else EXIT_REFUSED
    if as_json:
        print_json({"hits": hits, "exit_status": status})
        return status
    for hit in hits:
        tables.console.print(Text(hit.title, style="bold"), soft_wrap=True)
        tables.console.print(Text(f"  {hit.id}"), soft_wrap=True)
        tables.console.print(Padding(Text(hit.excerpt), (0, 0, 0, 4)))
    tables.console.print("`maxkernel docs --read ID` shows one" if hits else "nothing found")
    return status


def _read(id: str, text: str | None, as_json: bool) -> int:
    if text is None:
        raise UsageError(f"there is no entry {id!r}", "`maxkernel docs WORDS` finds some")
    if as_json:
        print_json({"id": id, "text": text, "exit_status": EXIT_ACCEPTED})
    else:
        print(text)
    return EXIT_ACCEPTED
