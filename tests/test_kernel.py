"""The system calls that a snippet may not make: their numbers, and what the filter does, here and on other machines."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

import pytest

from nnpedia import kernel

HEADERS = {
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),  # what arm64's <asm/unistd.h> includes
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
}
MACHINES = {"aarch64": 183, "x86_64": 62}  # EM_ of <linux/elf-em.h>
SIXTY_FOUR_BITS, LITTLE_ENDIAN = 0x8000_0000, 0x4000_0000  # __AUDIT_ARCH_ of <linux/audit.h>
ALLOWED = kernel.ALLOW


def refused(error: int) -> int:
    return kernel.ERRNO | error


@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    if not HEADERS[machine].is_file():
        pytest.skip(f"the kernel's headers are not installed here: there is no {HEADERS[machine]}")
    defined = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text(), re.MULTILINE)
    numbers = {name: int(number) for name, number in defined}
    name, calls = kernel.CALLS[machine]
    assert name == MACHINES[machine] | SIXTY_FOUR_BITS | LITTLE_ENDIAN
    assert calls == {call: numbers.get(call) for call in calls}
    # what makes a process has to be in the table wherever the machine has it
    assert {"fork", "vfork", "clone", "clone3", "execve", "execveat"} & set(numbers) <= set(calls)
    landlock = [numbers[f"landlock_{call}"] for call in ("create_ruleset", "add_rule", "restrict_self")]
    assert landlock == [kernel.CREATE_RULESET, kernel.ADD_RULE, kernel.RESTRICT_SELF]


def verdict(program: bytes, architecture: int, number: int, argument: int = 0) -> int:
    """What a filter returns for a call, as the kernel would run it."""
    shown = struct.pack("<IIQQ", number, architecture, 0, argument)
    steps = list(struct.iter_unpack("<HBBI", program))
    at = held = 0
    while True:
        code, if_so, if_not, value = steps[at]
        at += 1
        if code == kernel.RETURN:
            return int(value)
        if code == kernel.LOAD:
            held = int.from_bytes(shown[value : value + 4], "little")
        else:
            passes = {kernel.EQUAL: held == value, kernel.ANY_BIT: bool(held & value), 0x35: held >= value}[code]
            at += if_so if passes else if_not


@pytest.mark.parametrize("machine", HEADERS)
def test_the_filter_refuses_what_it_is_for_and_nothing_else(machine: str) -> None:
    """No machine but x86-64 ran it here, so its program is stepped through."""
    name, calls = kernel.CALLS[machine]
    program = kernel._program(name, calls, False)
    for call in set(calls) - set(kernel.LOOKED_INTO):
        assert verdict(program, name, calls[call]) == refused(kernel.EPERM), call
    read, write = {"aarch64": (63, 64), "x86_64": (0, 1)}[machine]
    assert {verdict(program, name, number) for number in (read, write)} == {ALLOWED}
    assert verdict(program, name ^ 1, read) == refused(kernel.EPERM)  # calls of another machine
    assert verdict(program, name, calls["clone"], kernel.THREAD) == ALLOWED
    assert verdict(program, name, calls["clone"], 17) == refused(kernel.EPERM)  # SIGCHLD: a process
    assert verdict(program, name, calls["clone3"]) == refused(kernel.ENOSYS)
    for call in ("kill", "tgkill"):
        assert verdict(program, name, calls[call], os.getpid()) == ALLOWED
        assert verdict(program, name, calls[call], 1) == refused(kernel.EPERM)
    assert verdict(program, name, calls["socket"]) == refused(kernel.EACCES)
    assert verdict(kernel._program(name, calls, True), name, calls["socket"]) == ALLOWED
