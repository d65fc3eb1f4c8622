"""Kernel: what Linux refuses a process that has asked it to, for good and for all it starts.

Landlock keeps its files to a list of folders, a seccomp filter takes system calls away, and a
process of root gives its capabilities up. None of it needs a privilege, so it works in a container
too. Where the kernel offers less, `missing` says what.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
# Of Landlock's rights over files: those to read, those that make sense on a file that is no folder, and all
# there were in each version of it.
READ = 1 << 2 | 1 << 3
ON_A_FILE = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
BIND_AND_CONNECT = 0b11
OTHERS_SOCKETS_AND_SIGNALS = 0b11

NO_NEW_PRIVILEGES, SET_SECCOMP, DEATH_SIGNAL = 38, 22, 1
ERRNO, ALLOW = 0x0005_0000, 0x7FFF_0000
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # where they lie in what a filter is shown
THREAD = 0x10000  # the flag of a clone that makes a thread
EPERM, EACCES, ENOSYS = 1, 13, 38

# machine: (its name for seccomp, system calls). A process that a snippet starts could outlive it, and these
# reach other processes, the kernel's settings, or what Landlock does not see.
CALLS: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        {
            "fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "ptrace": 101, "process_vm_readv": 310,
            "process_vm_writev": 311, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272,
            "setns": 308, "bpf": 321, "perf_event_open": 298, "io_uring_setup": 425, "keyctl": 250, "add_key": 248,
            "request_key": 249, "userfaultfd": 323, "init_module": 175, "finit_module": 313, "kexec_load": 246,
            "pidfd_getfd": 438, "pidfd_send_signal": 424, "open_by_handle_at": 304, "tkill": 200,
            "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297,
            "clone": 56, "clone3": 435, "socket": 41, "kill": 62, "tgkill": 234,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "execve": 221, "execveat": 281, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271,
            "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268, "bpf": 280,
            "perf_event_open": 241, "io_uring_setup": 425, "keyctl": 219, "add_key": 217, "request_key": 218,
            "userfaultfd": 282, "init_module": 105, "finit_module": 273, "kexec_load": 104, "pidfd_getfd": 438,
            "pidfd_send_signal": 424, "open_by_handle_at": 265, "tkill": 130, "rt_sigqueueinfo": 138,
            "rt_tgsigqueueinfo": 240,
            "clone": 220, "clone3": 435, "socket": 198, "kill": 129, "tgkill": 131,
        },
    ),
}  # fmt: skip
LOOKED_INTO = ("clone", "clone3", "socket", "kill", "tgkill")  # refused by their arguments


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@cache
def missing() -> tuple[str, ...]:
    """What this system cannot hold a snippet to, each as what is then only Python's to refuse."""
    if sys.platform != "linux":
        return ("processes, sockets and files, as this is no Linux",)
    lacks = []
    if landlock_version() < 1:
        lacks.append("files outside its folder, as this kernel has no Landlock")
    if platform.machine() not in CALLS or libc().prctl(21, 0, 0, 0, 0) < 0:  # PR_GET_SECCOMP
        lacks.append("processes and sockets, as there is no seccomp filter here")
    return tuple(lacks)


def landlock_version() -> int:
    """Which version of Landlock the kernel has; 0 or less where it has none."""
    if sys.platform != "linux":
        return 0
    return int(libc().syscall(CREATE_RULESET, None, 0, 1))


def end_with(parent: int) -> None:
    """End this process, at once, when the thread that forked it ends; at once if its process already has."""
    if sys.platform == "linux":
        libc().prctl(DEATH_SIGNAL, 9, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def give_up_capabilities() -> None:
    """What root may do beyond its own files: nothing more of it, in this process or one that it becomes."""
    if sys.platform == "linux":
        header = struct.pack("=Ii", 0x20080522, 0)
        libc().capset(ctypes.c_char_p(header), ctypes.c_char_p(bytes(24)))
        libc().prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def keep_to(writable: Iterable[Path], readable: Iterable[Path], network: bool) -> None:
    """Landlock: write below `writable` only, read below both only, run no program; and no TCP without `network`."""
    version = landlock_version()
    if version < 1:
        return
    files = RIGHTS[min(version, max(RIGHTS))]
    tcp = BIND_AND_CONNECT if version >= 4 and not network else 0
    scoped = OTHERS_SOCKETS_AND_SIGNALS if version >= 6 else 0
    attributes = struct.pack("=QQQ", files, tcp, scoped)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = libc().syscall(CREATE_RULESET, ctypes.c_char_p(attributes), ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return
    try:
        for path in writable:
            _allow(ruleset, path, files & ~1)
        for path in readable:
            _allow(ruleset, path, files & READ)
        libc().prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        libc().syscall(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    with contextlib.suppress(OSError):  # what is not there needs no rule
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rule = struct.pack("=Qi", rights if path.is_dir() else rights & ON_A_FILE, place)
            libc().syscall(ADD_RULE, ruleset, 1, ctypes.c_char_p(rule), 0)
        finally:
            os.close(place)


def take_calls_away(network: bool) -> None:
    """seccomp: no process is started or reached, nothing of the kernel is set, and no socket without `network`."""
    machine = CALLS.get(platform.machine())
    if sys.platform != "linux" or machine is None:
        return
    program = _program(*machine, network)
    libc().prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    libc().prctl(SET_SECCOMP, 2, ctypes.byref(_Filter(len(program) // 8, program)), 0, 0)


def _program(name: int, calls: dict[str, int], network: bool) -> bytes:
    def step(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
        return struct.pack("=HBBI", code, if_so, if_not, value)

    def refuse(call: str, error: int) -> bytes:
        return step(EQUAL, calls[call], 0, 1) + step(RETURN, ERRNO | error)

    def unless(call: str, test: int, value: int) -> bytes:
        """Refuse `call` unless its first argument passes; either way the filter ends there."""
        looked = step(LOAD, FIRST_ARGUMENT) + step(test, value, 1, 0)
        return step(EQUAL, calls[call], 0, 4) + looked + step(RETURN, ERRNO | EPERM) + step(RETURN, ALLOW)

    own = os.getpid()
    return b"".join((
        step(LOAD, ARCHITECTURE), step(EQUAL, name, 1, 0), step(RETURN, ERRNO | EPERM),
        step(LOAD, NUMBER), step(0x35, 0x4000_0000, 0, 1), step(RETURN, ERRNO | EPERM),  # x86's other numbering
        *(refuse(call, EPERM) for call in calls if call not in LOOKED_INTO),
        refuse("clone3", ENOSYS),  # its flags lie in memory, out of a filter's sight: the C library then uses clone
        b"" if network else refuse("socket", EACCES),
        unless("clone", ANY_BIT, THREAD), unless("kill", EQUAL, own), unless("tgkill", EQUAL, own),
        step(RETURN, ALLOW),
    ))  # fmt: skip
