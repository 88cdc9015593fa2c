"""The system call filter alone, without a sandbox around it: each test runs a real process."""

import platform
import subprocess
import sys
import textwrap

import pytest

from maxkernel.worker.seccomp import program
from maxkernel.worker.syscalls import TABLES

pytestmark = pytest.mark.skipif(platform.machine() not in TABLES, reason="no filter here")


def confined(code: str) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a fresh process that has put the filter on itself."""
    text = "from maxkernel.worker import seccomp\nseccomp.confine()\n" + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)


DENIED = {
    "fork": "import os; os.fork()",
    "exec": "import os; os.execv('/bin/true', ['true'])",
    "spawn": "import os; os.posix_spawn('/bin/true', ['true'], {})",
    "signal another": "import os; os.kill(os.getppid(), 0)",
    "signal a group": "import os; os.killpg(os.getpgrp(), 0)",
    "pidfd": "import os; os.pidfd_open(os.getpid())",
    "socket": "import socket; socket.socket()",
    "socket pair": "import socket; socket.socketpair()",
    "write": "open('/tmp/maxkernel-test-mark', 'w')",
    "append": "open('/dev/null', 'a')",
    "folder": "import os; os.mkdir('/tmp/maxkernel-test-mark')",
    "remove": "import os; os.unlink('/tmp/nothing')",
    "rename": "import os; os.rename('/tmp/a', '/tmp/b')",
    "link": "import os; os.symlink('/tmp/a', '/tmp/b')",
    "memory file": "import os; os.memfd_create('x')",
    "priority": "import os; os.setpriority(os.PRIO_PROCESS, 0, 5)",
    "affinity": "import os; os.sched_setaffinity(0, {0})",
    "owner of signals": "import fcntl; fcntl.fcntl(0, fcntl.F_SETOWN, 1)",
}


@pytest.mark.parametrize("name", DENIED)
def test_denied(name: str) -> None:
    done = confined(DENIED[name])
    assert done.returncode == 1
    assert "PermissionError" in done.stderr, done.stderr


RAW = {
    "ptrace": "ptrace", "process_vm_readv": "process_vm_readv", "unshare": "unshare",
    "mount": "mount", "bpf": "bpf", "io_uring_setup": "io_uring_setup", "keyctl": "keyctl",
    "userfaultfd": "userfaultfd", "perf_event_open": "perf_event_open", "setns": "setns",
    "execveat": "execveat", "prlimit64": "prlimit64", "tkill": "tkill",
}  # fmt: skip


def test_raw_calls_are_denied() -> None:
    numbers = TABLES[platform.machine()][1]
    done = confined(f"""
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        limits = ctypes.create_string_buffer(16)
        for name, number in {[(name, numbers[name]) for name in RAW]}:
            arguments = (0, 7, limits, 0) if name == "prlimit64" else (1, 0, 0, 0)
            result = libc.syscall(number, *arguments)
            print(name, result, ctypes.get_errno())
        print("clone3", libc.syscall({numbers["clone3"]}, 0, 0), ctypes.get_errno())
    """)
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert lines.pop("clone3") == "-1 38", done
    assert lines == dict.fromkeys(RAW, "-1 1"), done


def test_what_a_trace_needs_still_works() -> None:
    done = confined("""
        import os, signal, sys, threading, json, resource, zlib
        thread = threading.Thread(target=print, args=("from a thread",))
        thread.start(); thread.join()
        assert open("/proc/self/status").read()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)
        os.kill(os.getpid(), 0)
        print(os.listdir("/proc/self/task") != [])
        sys.stdout.flush()
        signal.raise_signal(signal.SIGTERM)
    """)
    assert done.stdout.splitlines() == ["from a thread", "True"], done
    assert done.returncode == -15


def test_filter_is_a_valid_program() -> None:
    instructions = program(1234)
    assert len(instructions) < 4096
    for position, (code, when_true, when_false, _) in enumerate(instructions):
        if code & 0x07 == 0x05:
            assert position + 1 + max(when_true, when_false) < len(instructions)
    assert instructions[-1][0] == 0x06
