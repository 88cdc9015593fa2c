"""Numbers of the system calls that a candidate's process is denied or allowed in part.

From the kernel's tables: arch/x86/entry/syscalls/syscall_64.tbl and, for aarch64,
include/uapi/asm-generic/unistd.h. Calls from 424 on have one number everywhere.
"""

from __future__ import annotations

COMMON = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430,
    "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_open": 434, "clone3": 435,
    "openat2": 437, "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442,
    "memfd_secret": 447, "process_mrelease": 448, "fchmodat2": 452, "setxattrat": 463,
    "removexattrat": 466, "open_tree_attr": 467,
}  # fmt: skip

X86_64 = COMMON | {
    "open": 2, "ioctl": 16, "shmget": 29, "shmat": 30, "socket": 41, "socketpair": 53,
    "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "semget": 64, "msgget": 68,
    "fcntl": 72, "truncate": 76, "ftruncate": 77, "rename": 82, "mkdir": 83, "rmdir": 84,
    "creat": 85, "link": 86, "unlink": 87, "symlink": 88, "chmod": 90, "fchmod": 91, "chown": 92,
    "fchown": 93, "lchown": 94, "ptrace": 101, "rt_sigqueueinfo": 129, "utime": 132, "mknod": 133,
    "personality": 135, "setpriority": 141, "sched_setparam": 142, "sched_setscheduler": 144,
    "pivot_root": 155, "setrlimit": 160, "chroot": 161, "mount": 165, "umount2": 166,
    "swapon": 167, "reboot": 169, "init_module": 175, "delete_module": 176, "setxattr": 188,
    "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198,
    "fremovexattr": 199, "tkill": 200, "sched_setaffinity": 203, "clock_settime": 227,
    "tgkill": 234, "utimes": 235, "mq_open": 240, "kexec_load": 246, "add_key": 248,
    "request_key": 249, "keyctl": 250, "ioprio_set": 251, "openat": 257, "mkdirat": 258,
    "mknodat": 259, "fchownat": 260, "futimesat": 261, "unlinkat": 263, "renameat": 264,
    "linkat": 265, "symlinkat": 266, "fchmodat": 268, "unshare": 272, "utimensat": 280,
    "fallocate": 285, "rt_tgsigqueueinfo": 297, "perf_event_open": 298, "prlimit64": 302,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "sched_setattr": 314,
    "renameat2": 316, "memfd_create": 319, "bpf": 321, "execveat": 322, "userfaultfd": 323,
    "copy_file_range": 326,
}  # fmt: skip

AARCH64 = COMMON | {
    "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15,
    "fremovexattr": 16, "fcntl": 25, "ioctl": 29, "ioprio_set": 30, "mknodat": 33, "mkdirat": 34,
    "unlinkat": 35, "symlinkat": 36, "linkat": 37, "renameat": 38, "umount2": 39, "mount": 40,
    "pivot_root": 41, "truncate": 45, "ftruncate": 46, "fallocate": 47, "chroot": 51,
    "fchmod": 52, "fchmodat": 53, "fchownat": 54, "fchown": 55, "openat": 56, "utimensat": 88,
    "personality": 92, "unshare": 97, "kexec_load": 104, "init_module": 105,
    "delete_module": 106, "clock_settime": 112, "ptrace": 117, "sched_setparam": 118,
    "sched_setscheduler": 119, "sched_setaffinity": 122, "kill": 129, "tkill": 130,
    "tgkill": 131, "rt_sigqueueinfo": 138, "setpriority": 140, "reboot": 142, "setrlimit": 164,
    "mq_open": 180, "msgget": 186, "semget": 190, "shmget": 194, "shmat": 196, "socket": 198,
    "socketpair": 199, "add_key": 217, "request_key": 218, "keyctl": 219, "clone": 220,
    "execve": 221, "swapon": 224, "rt_tgsigqueueinfo": 240, "perf_event_open": 241,
    "prlimit64": 261, "name_to_handle_at": 264, "open_by_handle_at": 265, "setns": 268,
    "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273,
    "sched_setattr": 274, "renameat2": 276, "memfd_create": 279, "bpf": 280, "execveat": 281,
    "userfaultfd": 282, "copy_file_range": 285,
}  # fmt: skip

TABLES: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (0xC000003E, X86_64),
    "aarch64": (0xC00000B7, AARCH64),
}
"""By machine: the audit architecture (linux/audit.h) and the numbers."""
