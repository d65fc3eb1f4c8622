"""Sandbox: what the process of a snippet may do, and what it is shown of the machine.

Python's audit hook says in the snippet's own terms what is refused; it stops accidents. The kernel
(`nnpedia.kernel`) refuses the same to code that goes around Python. Limits of the process bound
its memory and the size of a file.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnpedia import kernel
from nnpedia.errors import SnippetRefused

GIGABYTE = 2**30
LARGEST_FILE = GIGABYTE // 4

_SECRET = re.compile(
    r"(^|_)(TOKENS?|KEYS?|SECRETS?|PASS|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|COOKIE|AUTH)(_|$)"
    r"|APIKEY|^(AWS|AZURE|GCP|GOOGLE|GITHUB|GITLAB|SSH|GPG|DOCKER|KUBE|VAULT|NETRC)_|_(DSN|PAT)$|^PGPASS",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"://[^/@\s]+:[^/@\s]+@")  # an address with a password in it
# What Python, the numerical libraries, the Hub's and this package are told by the environment, by how a name begins.
_ALLOWED = re.compile(
    r"(PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|TEMP|TMP|TERM|COLUMNS|NO_COLOR|CI|VIRTUAL_ENV"
    r"|(HTTPS?|NO|ALL)_PROXY|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|SYSTEMROOT|SOURCE_DATE_EPOCH"
    r"|(NNPEDIA|PYTHON|PYTORCH|TORCH|TORCHINDUCTOR|TRITON|HF|HUGGINGFACE|TRANSFORMERS|TOKENIZERS|TQDM|XDG|OMP|MKL|BLIS"
    r"|OPENBLAS|KMP|NUMEXPR|CUDA|CUBLAS|CUDNN|NCCL|NVIDIA|HIP|ROCR|HSA|LD|DYLD|MALLOC|DASK)_?\w*)",
    re.IGNORECASE,
)
# Of the system's own files: what Python, the C library and the numerical libraries look into as they run.
SYSTEM = (
    *("/usr", "/lib", "/lib64", "/bin", "/opt", "/nix", "/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"),
    *("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/hosts", "/etc/host.conf", "/etc/resolv.conf"),
    *("/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/localtime", "/etc/timezone", "/etc/passwd"),
    *("/etc/group", "/etc/ld.so.cache", "/etc/mime.types", "/etc/os-release", "/proc/cpuinfo", "/proc/meminfo"),
    *("/proc/stat", "/proc/loadavg", "/proc/version", "/proc/sys", "/sys/devices/system", "/sys/fs/cgroup"),
)


@dataclass(frozen=True)
class Rules:
    """What one snippet's process may use.

    Attributes:
        folder: Where it works, and the only place it may write.
        readable: What it may read besides: folders, or files.
        network: Whether it may open sockets.
        memory: Bytes it may ask for beyond those it starts with.
    """

    folder: Path
    readable: tuple[Path, ...] = ()
    network: bool = False
    memory: int = 6 * GIGABYTE


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without secrets: by their name (`HF_TOKEN`, `AWS_…`, `…_KEY`), or an address with a password."""
    return {name: value for name, value in environment.items() if not _SECRET.search(name) and not _LOGIN.search(value)}


def allowed(environment: Mapping[str, str]) -> dict[str, str]:
    """What of the environment a snippet may see: what is known to be harmless, and of that nothing like a secret."""
    return {name: value for name, value in scrubbed(environment).items() if _ALLOWED.fullmatch(name)}


def enter(rules: Rules) -> None:
    """Hold this process to the rules from here on; nothing takes them back."""
    _environment(rules.folder)
    _limits(rules.memory)
    kernel.give_up_capabilities()
    kernel.keep_to([rules.folder, Path("/dev/null")], [*_needed(), *rules.readable], rules.network)
    kernel.take_calls_away(rules.network)
    sys.addaudithook(_watch(rules))


def _environment(folder: Path) -> None:
    kept = allowed(os.environ)
    os.environ.clear()
    os.environ.update(kept, TMPDIR=str(folder), HOME=str(folder))
    tempfile.tempdir = str(folder)
    sys.dont_write_bytecode = True
    os.chdir(folder)


def _limits(memory: int) -> None:
    import resource

    def lower(kind: int, value: int) -> None:
        with contextlib.suppress(OSError, ValueError):  # the limit may be lower already
            resource.setrlimit(kind, (value, value))

    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_FSIZE, LARGEST_FILE)
    if used := _address_space():
        lower(resource.RLIMIT_AS, used + memory)


def _address_space() -> int:
    """Bytes of address space this process has now; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _needed() -> list[Path]:
    """What the interpreter itself and its packages lie in."""
    own = [sys.prefix, sys.base_prefix, sys.exec_prefix, *(path for path in sys.path if path)]
    return [Path(path) for path in dict.fromkeys((*own, *SYSTEM))]


def _watch(rules: Rules) -> Callable[[str, tuple[Any, ...]], None]:
    """The audit hook: raises `SnippetRefused` for what the rules do not allow."""
    folder = os.path.realpath(rules.folder)
    own = os.getpid()

    def inside(path: Any) -> bool:
        if isinstance(path, int):
            return True
        real = os.path.realpath(os.fsdecode(path))
        return real == os.devnull or real == folder or real.startswith(folder + os.sep)

    def written(path: Any) -> None:
        if path is not None and not inside(path):
            raise SnippetRefused(
                f"a snippet writes nothing outside its working folder, and {os.fsdecode(path)} is: use a relative path"
            )

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            if arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND):
                written(arguments[0])
        elif event in _PATHS and not (event == "os.mkdir" and os.path.isdir(arguments[0])):  # "if it is not there"
            for place in _PATHS[event]:
                written(arguments[place])
        elif event in _PROCESSES:
            raise SnippetRefused("a snippet starts no process")
        elif event in _SIGNALS and arguments[0] != own:
            raise SnippetRefused("a snippet sends no signal to another process")
        elif not rules.network and (event in _SOCKETS or (event == "socket.__new__" and arguments[1] != _UNIX)):
            raise SnippetRefused("a snippet has no network: write ```python network if it cannot do without")

    return watch


_UNIX = 1  # the family of sockets inside the machine, as pairs of which event loops are made
_SOCKETS = frozenset(("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"))
_PROCESSES = frozenset(
    ("os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen", "pty.spawn")
)
_SIGNALS = frozenset(("os.kill", "os.killpg"))
_PATHS = {
    "os.mkdir": (0,), "os.rmdir": (0,), "os.remove": (0,), "os.rename": (0, 1), "os.link": (1,), "os.symlink": (1,),
    "os.truncate": (0,), "os.chmod": (0,), "os.chown": (0,), "os.utime": (0,), "os.setxattr": (0,),
    "os.removexattr": (0,),
}  # fmt: skip
