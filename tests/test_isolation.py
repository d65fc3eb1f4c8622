"""What a snippet does to its process, its machine or its page's other snippets costs that snippet alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny_gpt2 import tiny_gpt2

from nnpedia import kernel, sandbox
from nnpedia.errors import CheckpointError
from nnpedia.fences import check_notes, read_document
from nnpedia.isolation import run_isolated
from nnpedia.record import SnippetFact

FILE = "families/tiny/notes.md"
PROMPT = "The Eiffel Tower"
TRACE = "with model.trace(prompt):\n    h = model.lm_head.output.save()\nassert h.shape[-1] == 257"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="snippets are forked, and this system forks nothing")
on_linux = pytest.mark.skipif(bool(kernel.missing()), reason=f"this system leaves out: {'; '.join(kernel.missing())}")


@pytest.fixture(scope="module")
def model() -> Iterator[Any]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a pool of threads does not come along in a fork
    yield tiny_gpt2()
    torch.set_num_threads(threads)


def run(model: Any, *codes: str) -> list[SnippetFact]:
    """Run fences, given with or without an info string's options as `options|code`."""
    text = "# Tiny\n\n"
    for code in codes:
        options, _, body = code.partition("|") if "|" in code.partition("\n")[0] else ("", "", code)
        text += f"```python {options}".rstrip() + f"\n{body}\n```\n\n"
    return run_isolated(read_document(FILE, text).fences, lambda load, on: model, PROMPT)


# what it does: (the code, at which of its lines it has failed, what is said of it)
HARM = {
    "infinite loop": ("x = 1\nwhile True:\n    x += 1", (2, 3), "took longer than its limit of 2 s and was ended"),
    "infinite loop in a trace": (
        "with model.trace(prompt):\n    h = model.lm_head.output.save()\n    while True:\n        pass\nprint(h)",
        (3, 4),
        "took longer than its limit of 2 s and was ended",
    ),
    "os._exit": ("import os\nos._exit(7)", (1,), "ended its own process, with code 7"),
    "segfault": ("import ctypes\n\nctypes.string_at(0)", (3,), "its process was ended by SIGSEGV"),
    "killing itself": ("import os\nos.kill(os.getpid(), 9)", (1,), "its process was ended by SIGKILL"),
    "50 GB": ("x = b'x' * (50 * 2**30)", (1,), "MemoryError: more than the memory a snippet may use"),
    "50 GB tensor": ("x = torch.ones(50 * 2**30, dtype=torch.uint8)", (1,), "can't allocate memory"),
    "writing outside": (
        "from pathlib import Path\nPath('OUTSIDE').write_text('x')",
        (2,),
        "SnippetRefused: a snippet writes nothing outside its working folder, and",
    ),
    "deleting outside": ("import os\nos.remove('OUTSIDE.kept')", (2,), "writes nothing outside its working folder"),
    "opening a socket": ("import socket\nsocket.socket()", (2,), "SnippetRefused: a snippet has no network"),
    "looking up a name": ("import socket\nsocket.getaddrinfo('localhost', 80)", (2,), "a snippet has no network"),
    "printing 1 GB": ("for _ in range(1024):\n    print('x' * 2**20)", (2,), "prints at most 10 million characters"),
    "writing 1 GB": (
        "with open('x', 'wb') as file:\n    for _ in range(1024):\n        file.write(bytes(2**20))",
        (2, 3),
        "File too large",
    ),
    "forking without end": (
        "import os\nwhile True:\n    os.fork()",
        (3,),
        "SnippetRefused: a snippet starts no process",
    ),
    "a program": ("import subprocess\nsubprocess.run(['true'])", (2,), "SnippetRefused: a snippet starts no process"),
    "HF_TOKEN": ("import os\nprint(os.environ['HF_TOKEN'])", (2,), "KeyError: 'HF_TOKEN'"),
    "the build's process": ("import os\nos.kill(os.getppid(), 15)", (2,), "sends no signal to another process"),
}


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("NNPEDIA_SNIPPET_SECONDS", "2")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    (tmp_path / "out.kept").write_text("kept")
    return tmp_path / "out"


@pytest.mark.parametrize("harm", HARM)
def test_harm_is_one_failed_snippet_at_its_line_and_the_others_stand(model: Any, held: Path, harm: str) -> None:
    code, lines, says = HARM[harm]
    before, bad, after, last = run(
        model, TRACE, code.replace("OUTSIDE", str(held)), f"continues|{TRACE}", TRACE.replace("257", "3")
    )
    assert (before.ok, before.error) == (True, None)
    first, _, rest = (bad.error or "").partition("\n")
    assert any(first.startswith(f"{FILE}:{bad.line + line - 1}: ") for line in lines), first
    assert says in first
    assert "Traceback (most recent" not in rest
    assert "hf_secret" not in bad.model_dump_json()
    assert not after.ran
    assert f"not run, as what it continues fails: {first}" in (after.error or "")
    assert "AssertionError: h.shape[-1] == 3 (left: 257, right: 3)" in (last.error or "")  # it ran all the same
    assert [path.name for path in held.parent.iterdir()] == ["out.kept"]


# code that goes around Python's own checks, and what the system answers
AROUND = {
    "writing outside": "libc.open(b'/tmp/nnpedia-outside', 0o101, 0o600)",
    "removing a file": "libc.unlink(b'OUTSIDE.kept')",
    "a socket": "libc.socket(2, 1, 0)",
    "a fork": "libc.fork()",
    "a program": "libc.execl(b'/bin/true', b'true', None)",
    "a signal": "libc.kill(os.getppid(), 0)",
    "tracing the build": "libc.ptrace(16, os.getppid(), 0, 0)",
    "a mount": "libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)",
    "a new namespace": "libc.unshare(0x10000000)",
}


@on_linux
@pytest.mark.parametrize("way", AROUND)
def test_the_system_refuses_what_goes_around_python(model: Any, held: Path, way: str) -> None:
    code = f"import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\ncode = {AROUND[way]}\n"
    code += "print(code, os.strerror(ctypes.get_errno()))"
    (fact,) = run(model, code.replace("OUTSIDE", str(held)))
    assert fact.output in ("-1 Operation not permitted\n", "-1 Permission denied\n")
    assert (held.parent / "out.kept").read_text() == "kept"


@on_linux
def test_what_a_process_was_started_with_cannot_be_read(model: Any, held: Path) -> None:
    secret = held.parent / "out.kept"
    for path in ("/proc/self/environ", "/proc/1/environ", "/etc/shadow", secret, Path.home() / ".netrc"):
        (fact,) = run(model, f"from pathlib import Path\nprint(Path({str(path)!r}).read_bytes())")
        assert "Error" in (fact.error or ""), fact.output
        assert not fact.output


def test_what_a_snippet_may_do_it_can(model: Any) -> None:
    codes = [
        "from pathlib import Path\nimport tempfile\nPath('a').write_text('b')\n"
        "with tempfile.TemporaryFile() as file:\n    file.write(b'x')\nprint(Path('a').read_text())",
        "import threading\nthread = threading.Thread(target=print, args=('from a thread',))\nthread.start()\n"
        "thread.join()",
        "import asyncio\n\nasync def three():\n    return 3\n\nprint(asyncio.run(three()))",
        "with model.trace(prompt):\n    h = model.transformer.h[0].output\n    logits = model.lm_head.output\n"
        "    with logits.sum().backward():\n        g = h.grad.save()\nmodel.zero_grad()\nprint(g.shape[-1])",
        "import json.tool, wave\nprint(wave.__name__)",
    ]
    facts = run(model, *codes)
    assert [(fact.output, fact.error) for fact in facts] == [
        ("b\n", None), ("from a thread\n", None), ("3\n", None), ("16\n", None), ("wave\n", None)
    ]  # fmt: skip


def test_a_fence_that_asks_for_the_network_has_it(model: Any) -> None:
    import http.server
    import threading

    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.handle_request, daemon=True).start()
    code = (
        f"import socket\nwith socket.create_connection(('127.0.0.1', {server.server_port})) as link:\n    print('in')"
    )
    asked, silent, follows = run(model, f"network|{code}", code, "continues|print('still', link is not None)")
    server.server_close()
    assert (asked.output, asked.error) == ("in\n", None)
    assert "has no network" in (silent.error or "")
    assert not follows.ok


def test_a_fence_cannot_ask_for_the_network_in_the_middle(tmp_path: Path) -> None:
    page = tmp_path / "notes.md"
    page.write_text("# T\n\n```python\nprint(1)\n```\n\n```python continues network\nprint(2)\n```\n")
    (problem,) = check_notes(page)
    assert "cannot change network" in problem.what
    page.write_text("# T\n\n```python network=yes\nprint(1)\n```\n")
    (problem,) = check_notes(page)
    assert "option 'network' takes no value" in problem.what


def test_each_fence_has_a_folder_and_names_of_its_own_and_nothing_is_left(model: Any, tmp_path: Path) -> None:
    facts = run(
        model,
        "import os\nopen('left', 'w').close()\nx = 1\nprint(sorted(os.listdir()))",
        "continues|print(x, sorted(os.listdir()))",
        "import os\nprint('x' in globals(), os.listdir())",
        f"model.lm_head.weight.data.zero_()\nprint(1)\n# {tmp_path}",
        "with model.trace(prompt):\n    h = model.lm_head.output.save()\nassert h.any()",
    )
    assert [fact.output for fact in facts[:3]] == ["['left']\n", "1 ['left']\n", "False []\n"]
    assert "leaves the model other than it was" in (facts[3].error or "")
    assert facts[4].ok
    assert model.lm_head.weight.any()


def test_a_model_that_cannot_be_loaded_is_told_of_each_fence(model: Any) -> None:
    def load(options: dict[str, str], on: str | None) -> Any:
        raise CheckpointError("no such checkpoint", where="x")

    text = "```python\nassert 1\n```\n\n```python continues\nassert 1\n```\n"
    facts = run_isolated(read_document(FILE, text).fences, load, PROMPT)
    assert [fact.ran for fact in facts] == [False, False]
    assert all("no model to run on: CheckpointError: x: no such checkpoint" in (fact.error or "") for fact in facts)


def test_a_process_that_says_it_is_another_fence_is_not_believed(model: Any) -> None:
    forged = '{"file": "/etc/passwd", "line": 1, "section": "", "code": "print(2)", "ran": true, "error": "x: y"}'
    found = "import contextlib, os\nfor fd in range(3, 64):\n    with contextlib.suppress(OSError):\n"
    found += "        os.write(fd, {!r})\nprint(1)"
    (fact,) = run(model, found.format((forged + "\n").encode()))
    assert (fact.file, fact.line, fact.ok) == (FILE, 4, False)
    (fact,) = run(model, found.format(b"no JSON at all\n"))
    assert "sent something that is no result" in (fact.error or "")


def test_secrets_are_told_by_their_names() -> None:
    kept = {"PATH": "/bin", "LANG": "C", "KEYBOARD": "us", "NNPEDIA_HOME": "/x", "TOKENIZERS_PARALLELISM": "0",
            "HTTPS_PROXY": "http://proxy:3128"}  # fmt: skip
    named = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "OPENAI_API_KEY", "WANDB_API_KEY", "AWS_PROFILE", "my_secret",
             "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "PGPASSWORD", "SENTRY_DSN")  # fmt: skip
    secret = dict.fromkeys(named, "x") | {"PIP_INDEX_URL": "https://me:word@index"}
    assert sandbox.scrubbed(kept | secret) == kept
    harmless = {name: value for name, value in kept.items() if name != "KEYBOARD"}
    assert sandbox.allowed(kept | secret | {"BANK": "1234", "MY_NNPEDIA": "x"}) == harmless


@on_linux
def test_memory_that_the_machine_has_and_the_snippet_has_not(
    model: Any, held: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not more than its unit has left, though a larger piece would be given by the system."""
    monkeypatch.setenv("NNPEDIA_MEMORY", "3")
    (fact,) = run(model, "held = bytearray(4 * 2**30)\nprint(len(held))")
    assert "MemoryError" in (fact.error or ""), fact.output
    (fact,) = run(model, "held = bytearray(2**28)\nprint(len(held))")
    assert fact.output == f"{2**28}\n"


@on_linux
def test_python_alone_refuses_where_the_kernel_cannot(model: Any, held: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("keep_to", "take_calls_away", "give_up_capabilities"):
        monkeypatch.setattr(kernel, name, lambda *_: None)
    for harm in ("writing outside", "deleting outside", "opening a socket", "forking without end", "a program"):
        code, _, says = HARM[harm]
        (fact,) = run(model, code.replace("OUTSIDE", str(held)))
        assert says in (fact.error or ""), harm


def test_a_user_without_privileges_is_held_as_root_is(held: Path) -> None:
    """The same refusals for somebody who is nobody, in a process of their own."""
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("only root can become somebody else; the other tests ran as you")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.environ["TMPDIR"] = "/tmp"
            import tempfile

            tempfile.tempdir = None
            text = "```python\nimport ctypes\nprint(ctypes.CDLL(None).socket(2, 1, 0), ctypes.CDLL(None).fork())\n```\n"
            (fact,) = run_isolated(read_document(FILE, text).fences, lambda load, on: None, PROMPT)
            code = 0 if fact.output == "-1 -1\n" else 3
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_snippet_computes_after_its_parent_used_many_threads(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setenv("NNPEDIA_SNIPPET_SECONDS", "10")
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.randn(600, 600) @ torch.randn(600, 600)  # now there is a team of threads, which a fork does not have
        (fact,) = run(model, "x = torch.ones(600, 600) @ torch.ones(600, 600)\nassert x.max() == 600")
    finally:
        torch.set_num_threads(threads)
    assert fact.ok, fact.error
