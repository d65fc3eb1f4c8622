"""The site as a reader has it: served below a sub-path, opened in a real Chromium.

A test asks for `visiting` and opens pages with it: any width, scheme, with touch, without
JavaScript. What goes wrong on a page meanwhile (a console error, a script error, a violation of the
content security policy, a request that fails or leaves this host) fails the test at its end.

Opens the published `public/` of the checkout, which `make site` makes; where there is none, a site
built from sample records.
"""

from __future__ import annotations

import functools
import gzip
import http.server
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
import sample_records as samples

ROOT = Path(__file__).parent.parent
CHROMIUM = os.environ.get("NNPEDIA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
#: The sub-path that the site is served below, as a project page has it.
BELOW = "below"
SIZES = {"phone": (390, 844), "tablet": (768, 1024), "desk": (1400, 900), "wide": (2560, 1440)}
SCHEMES = ("light", "dark")
_TYPES = {".md": "text/markdown", ".ipynb": "application/x-ipynb+json", ".yml": "text/yaml", ".woff2": "font/woff2"}
#: What is a file of the site and no page, by its ending.
FILES = (".html", ".json", ".md", ".ipynb", ".txt", ".xml", ".yml", ".inv")
_PACKED = (".woff2", ".png", ".webp", ".gz", ".inv")


class Handler(http.server.SimpleHTTPRequestHandler):
    """A static host as sites are published on: text goes out gzipped, and what is missing is 404.html."""

    protocol_version = "HTTP/1.1"
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, **_TYPES}

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if path.is_dir() and not self.path.partition("?")[0].endswith("/"):
            self.send_response(HTTPStatus.MOVED_PERMANENTLY)
            self.send_header("Location", f"{self.path}/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        status = HTTPStatus.OK
        path = path / "index.html" if path.is_dir() else path
        if not path.is_file():
            missing = Path(self.directory) / BELOW
            at_root = missing / self.path.partition("?")[0].lstrip("/")  # the page for what is missing thinks it is
            status, path = (
                (HTTPStatus.OK, at_root) if at_root.is_file() else (HTTPStatus.NOT_FOUND, missing / "404.html")
            )
        packs = "gzip" in self.headers.get("Accept-Encoding", "") and path.suffix not in _PACKED
        body = packed(path) if packs else path.read_bytes()
        self.send_response(status)
        self.send_header("Content-Type", self.guess_type(str(path)))
        if packs:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@functools.cache
def packed(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), 6, mtime=0)


@pytest.fixture(scope="session")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a built site."""
    built = ROOT / "public"
    if (built / "index.html").exists():
        return built
    from nnpedia.publish import publish

    home = tmp_path_factory.mktemp("home")
    samples.write_built(home, ROOT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NNPEDIA_HOME", str(home))
        publish(ROOT, home / "public")
    return home / "public"


@pytest.fixture(scope="session")
def site(public: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site's address, which ends in the sub-path and a slash."""
    root = tmp_path_factory.mktemp("served")
    (root / BELOW).symlink_to(public, target_is_directory=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(root)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/{BELOW}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; a missing one skips the tests, and fails them where CI is set.

    One for each file of tests: Playwright keeps an event loop running in this thread for as long
    as it is there, and other tests start loops of their own.
    """
    if not CHROMIUM:
        message = "no Chromium: install the system's package `chromium`, or name one in NNPEDIA_CHROMIUM"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


def pages_of(public: Path) -> list[str]:
    """Every page of a site by its path: `.` is the first, `families/phimoe` one of them."""
    return sorted(path.parent.relative_to(public).as_posix() for path in public.rglob("index.html"))


def telling_pages(public: Path) -> list[str]:
    """Every page but the smaller ones of the sections that one template makes: of those the three largest."""
    found = pages_of(public)
    for section in ("badges/", "laws/", "values/"):
        alike = [path for path in found if path.startswith(section)]
        alike.sort(key=lambda path: (public / path / "index.html").stat().st_size)
        found = [path for path in found if path not in alike[:-3]]
    return found


class Visit:
    """A window of one size and scheme, and what went wrong in it so far."""

    def __init__(self, browser: Any, site: str, size: str, scheme: str, **options: Any) -> None:
        width, height = SIZES[size]
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, service_workers="block", **options
        )
        self.page = self.context.new_page()
        self.site, self.at, self.wrong = site, "", list[str]()
        self.page.on("console", lambda each: self.note(each.type in ("error", "warning"), f"console: {each.text}"))
        self.page.on("pageerror", lambda each: self.note(True, f"script: {each}"))
        # what is under way when the next page is opened ends as aborted, which is no page's fault
        self.page.on(
            "requestfailed", lambda each: self.note("ERR_ABORTED" not in (each.failure or ""), f"failed: {each.url}")
        )
        local = (site, "data:", "blob:")
        self.page.on("request", lambda each: self.note(not each.url.startswith(local), f"elsewhere: {each.url}"))
        self.page.on("response", lambda each: self.note(each.status >= 400, f"{each.status}: {each.url}"))

    def note(self, bad: bool, what: str) -> None:
        if bad:
            self.wrong.append(f"{self.at}: {what}")

    def open(self, path: str = ".") -> Any:
        """Open a page of the site by its path, a fragment or query included, and return Playwright's page."""
        self.at = path
        parts = urlsplit(path)
        plain = "" if parts.path in ("", ".") else parts.path.strip("/")
        if plain and Path(plain).suffix not in FILES:
            plain += "/"
        self.page.goto(self.site + urlunsplit(("", "", plain, parts.query, parts.fragment)), wait_until="load")
        self.page.evaluate("document.fonts.ready")
        return self.page

    def problems(self) -> list[str]:
        """What went wrong so far; told once."""
        told, self.wrong = self.wrong, []
        return told


Visiting = Callable[..., Visit]


@pytest.fixture
def visiting(browser: Any, site: str) -> Iterator[Visiting]:
    """Opens windows: `visiting(size="phone", scheme="dark", touch=True, javascript=False, reduced_motion="reduce")`.

    `touch=True` makes a phone of it (taps, no hover). Other options are those of a Playwright context.
    """
    made: list[Visit] = []

    def visit(
        size: str = "desk", scheme: str = "light", *, touch: bool = False, javascript: bool = True, **options: Any
    ) -> Visit:
        touched = {"has_touch": True, "is_mobile": True} if touch else {}
        made.append(Visit(browser, site, size, scheme, java_script_enabled=javascript, **touched, **options))
        return made[-1]

    yield visit
    wrong = [problem for each in made for problem in each.problems()]
    for each in made:
        each.context.close()
    assert wrong == []
