"""A system call filter that a process puts on itself, before it runs a candidate.

It needs no privileges and cannot be taken off. New threads are allowed, since jax starts them;
everything that makes or touches another process, the network, the kernel or a file's content is
not. The filter is a classic BPF program over the call's number and arguments (seccomp(2)).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence

from maxkernel.worker.syscalls import TABLES

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2  # linux/prctl.h, seccomp.h
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000  # linux/seccomp.h

# linux/bpf_common.h: load a word, jump if equal / any bit set / at least, return.
_LOAD, _JEQ, _JSET, _JGE, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data

_CLONE_THREAD = 0x00010000
_X32 = 0x40000000
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_SIGNAL_OWNERS = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX
_DANGEROUS_IOCTLS = (0x8901, 0x8902, 0x5412)  # FIOSETOWN, SIOCSPGRP, TIOCSTI

_PARTIAL = frozenset(
    {"clone", "clone3", "openat2", "kill", "tgkill", "open", "openat", "fcntl", "ioctl"}
    | {"prlimit64"}
)

Instruction = tuple[int, int, int, int]
"""Code, jump when true, jump when false, constant."""


class SeccompError(OSError):
    """This kernel or machine has no seccomp filters."""


def confine() -> None:
    """Installs the filter on the calling thread, for good; call it while it is the only one.

    Raises SeccompError when the kernel refuses or the machine is not x86-64 or aarch64.
    """
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program(os.getpid()))
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for option, first, second in (
        (_PR_SET_NO_NEW_PRIVS, 1, None),
        (_PR_SET_SECCOMP, _MODE_FILTER, ctypes.create_string_buffer(header, len(header))),
    ):
        if libc.prctl(option, first, second, 0, 0) != 0:
            number = ctypes.get_errno()
            raise SeccompError(
                number, f"the kernel refuses a seccomp filter: {os.strerror(number)}"
            )


def program(pid: int) -> list[Instruction]:
    """The filter for a process that may signal only itself (`pid`)."""
    machine = platform.machine()
    if machine not in TABLES:
        raise SeccompError(errno.ENOSYS, f"no system call table for {machine}")
    architecture, numbers = TABLES[machine]
    found: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JEQ, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_JGE, 0, 1, _X32),
        _deny(errno.ENOSYS),
    ]
    for name, block in _blocks(pid).items():
        if name in numbers:
            found += [(_JEQ, 0, len(block), numbers[name]), *block]
    for name, number in numbers.items():
        if name not in _PARTIAL:
            found += [(_JEQ, 0, 1, number), _deny(errno.EPERM)]
    return [*found, (_RETURN, 0, 0, _ALLOW)]


def _blocks(pid: int) -> dict[str, list[Instruction]]:
    """What decides a call that is allowed in part; each block ends with a return."""
    read_only = (_JSET, 0, 1, _WRITES)
    return {
        "clone": [_low(0), (_JSET, 1, 0, _CLONE_THREAD), _deny(errno.EPERM), _ALLOWED],
        # Their arguments lie in memory, out of the filter's sight: callers fall back.
        "clone3": [_deny(errno.ENOSYS)],
        "openat2": [_deny(errno.ENOSYS)],
        "kill": [_low(0), (_JEQ, 1, 0, pid), _deny(errno.EPERM), _ALLOWED],
        "tgkill": [_low(0), (_JEQ, 1, 0, pid), _deny(errno.EPERM), _ALLOWED],
        "open": [_low(1), read_only, _deny(errno.EACCES), _ALLOWED],
        "openat": [_low(2), read_only, _deny(errno.EACCES), _ALLOWED],
        "fcntl": _none_of(1, _SIGNAL_OWNERS),
        "ioctl": _none_of(1, _DANGEROUS_IOCTLS),
        # Reading limits is harmless; a new limit is a pointer that is not null.
        "prlimit64": [
            _low(2), (_JEQ, 0, 2, 0), _high(2), (_JEQ, 1, 0, 0), _deny(errno.EPERM), _ALLOWED,
        ],
    }  # fmt: skip


def _none_of(argument: int, values: Sequence[int]) -> list[Instruction]:
    block = [_low(argument)]
    for value in values:
        block += [(_JEQ, 0, 1, value), _deny(errno.EPERM)]
    return [*block, _ALLOWED]


_ALLOWED: Instruction = (_RETURN, 0, 0, _ALLOW)


def _deny(number: int) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | number)


def _low(argument: int) -> Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * argument)


def _high(argument: int) -> Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * argument + 4)
