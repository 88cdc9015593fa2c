"""What can go wrong when an artifact is read or executed: what, where and why."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


class MosaicError(Exception):
    """Base of all errors of this package.

    `kernel`, `op` and `location` are filled in as the error travels outwards; they are empty when
    the error does not belong to one operation.
    """

    kernel: str = ""
    op: str = ""
    location: str = ""
    step: tuple[int, ...] = ()
    """Grid indices of the step that failed."""

    def __init__(self, message: str, *, op: str = "", location: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.op = op
        self.location = location

    def __str__(self) -> str:
        where = [f"kernel {self.kernel}"] if self.kernel else []
        where += [f"grid step {self.step}"] if self.step else []
        where += [self.op] if self.op else []
        where += [f"at {self.location}"] if self.location else []
        return f"{self.message} ({', '.join(where)})" if where else self.message


@contextmanager
def refusing(what: str) -> Generator[None]:
    """Turn any other exception into `BadArtifact`: hostile bytes may break every assumption."""
    try:
        yield
    except MosaicError:
        raise
    except MemoryError as error:
        raise Exhausted(f"this machine has not enough memory for {what}") from error
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise BadArtifact(f"{what} failed: {text[:500]}") from error


class BadArtifact(MosaicError):
    """The artifact is malformed or carries something that no honest capture produces."""


class Unsupported(MosaicError):
    """An operation, type or form that the interpreter does not implement; never guessed."""


class OutOfBounds(MosaicError):
    """An access outside a ref, or a block wholly outside its array."""


class Race(MosaicError):
    """Memory touched while a DMA that has not been waited for reads or writes it."""


class Deadlock(MosaicError):
    """A wait that no DMA or signal can ever satisfy."""


class Unfinished(MosaicError):
    """A DMA never waited for, or a semaphore not zero, when its scope or the kernel ended."""


class WrittenInput(MosaicError):
    """A kernel wrote to an input that it does not alias to an output."""


class BrokenPromise(MosaicError):
    """The program promised the compiler something that is false (`assume_multiple`, `assert`)."""


class Exhausted(MosaicError):
    """A limit on steps, seconds or bytes was reached."""
