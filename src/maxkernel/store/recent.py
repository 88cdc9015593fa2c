"""Values that were written or read lately, so that threads need not wait for the file."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

KEPT = 2048


class Recent:
    """The last KEPT values by table and key. Thread-safe; values are immutable."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[tuple[str, int | str], Any] = OrderedDict()

    def get(self, table: str, key: int | str) -> Any:
        """The value, None when it is not at hand."""
        with self._lock:
            value = self._values.get((table, key))
            if value is not None:
                self._values.move_to_end((table, key))
            return value

    def put(self, table: str, key: int | str, value: Any) -> None:
        """Keeps a value."""
        with self._lock:
            self._values[table, key] = value
            self._values.move_to_end((table, key))
            if len(self._values) > KEPT:
                self._values.popitem(last=False)

    def clear(self) -> None:
        """Forgets everything: a batch was not stored."""
        with self._lock:
            self._values.clear()
