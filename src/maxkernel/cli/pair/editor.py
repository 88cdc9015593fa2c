"""Opens the person's editor on a text."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from maxkernel.errors import UsageError


def edit(text: str, suffix: str) -> str | None:
    """The text as the person left it; None when it was left as it is.

    The editor is $VISUAL, else $EDITOR, else `vi`. Raises UsageError when it cannot be started
    or fails.
    """
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="maxkernel-edit-") as folder:
        path = Path(folder) / f"maxkernel{suffix}"
        path.write_text(text, encoding="utf-8")
        try:
            status = subprocess.run([*command, str(path)], check=False).returncode
        except OSError as error:
            raise UsageError(
                f"cannot start the editor {command[0]!r}: {error.strerror}", "set EDITOR"
            ) from error
        if status:
            raise UsageError(f"the editor {command[0]!r} ended with status {status}: nothing taken")
        try:
            edited = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read what the editor left: {error}") from error
    return None if edited == text else edited
