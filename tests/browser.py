"""Chromium without a window, through its WebDriver."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: The codes of keys that are not text.
_CODES = {"Tab": 9, "Enter": 13, " ": 32, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


def what_is_missing() -> str | None:
    """Return what a test with a browser needs and the machine does not have, or None."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        return "needs Chromium and its driver (Debian: chromium, chromium-driver)"
    return None


class Browser:
    """One window.

    Args:
        driver: The address of the driver.
        session: The number of the session.
    """

    def __init__(self, driver: str, session: str) -> None:
        self._address = f"{driver}/session/{session}"

    def _ask(self, path: str, **fields: Any) -> Any:
        return post(f"{self._address}/{path}", fields)

    def open(self, address: str) -> None:
        """Open a page, and wait until it has loaded."""
        self._ask("url", url=address)

    def run(self, script: str, *arguments: Any) -> Any:
        """Return the value of a script, or of the promise that it returns."""
        return self._ask("execute/sync", script=script, args=list(arguments))

    def command(self, name: str, **parameters: Any) -> Any:
        """Run a command of the DevTools protocol."""
        return self._ask("goog/cdp/execute", cmd=name, params=parameters)

    def keys(self, *names: str) -> None:
        """Press keys, by their names in the DevTools protocol."""
        for name in names:
            text = {"Enter": "\r", " ": " "}.get(name, name if len(name) == 1 else "")
            code = {"windowsVirtualKeyCode": _CODES[name]} if name in _CODES else {}
            self.command("Input.dispatchKeyEvent", type="keyDown", key=name, text=text, **code)
            self.command("Input.dispatchKeyEvent", type="keyUp", key=name, **code)

    def emulate(self, *, theme: str = "light", medium: str = "") -> None:
        """Set the theme of the reader, and the medium of the page."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.command("Emulation.setEmulatedMedia", media=medium, features=features)

    def screenshot(self) -> bytes:
        """Return the whole page as a PNG."""
        found = self.command("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(found["data"])

    def pdf(self) -> bytes:
        """Return the page as it is printed."""
        return base64.b64decode(self.command("Page.printToPDF", printBackground=True)["data"])

    def accessible(self) -> list[tuple[str, str]]:
        """Return role and name of each node that a screen reader finds, in its order."""
        nodes = self.command("Accessibility.getFullAXTree")["nodes"]
        by_id = {node["nodeId"]: node for node in nodes}
        found = []

        def visit(node: dict[str, Any]) -> None:
            if not node.get("ignored"):
                found.append((node["role"]["value"], node.get("name", {}).get("value", "")))
            for child in node.get("childIds", ()):
                if child in by_id:
                    visit(by_id[child])

        visit(nodes[0])
        return found


def post(address: str, fields: dict[str, Any]) -> Any:
    """Send a request to the driver, and return its answer."""
    return _answer(urllib.request.Request(address, json.dumps(fields).encode()))


def _answer(request: urllib.request.Request) -> Any:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=120) as response:
        return json.load(response)["value"]


@contextmanager
def browser(width: int = 1400, height: int = 1000) -> Iterator[Browser]:
    """Start a browser."""
    program = ["chromedriver", "--port=0"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as driver:
        try:
            assert driver.stdout is not None
            found = None
            while found is None:
                found = re.search(r"successfully on port (\d+)", line := driver.stdout.readline())
                assert line
            size = f"--window-size={width},{height}"
            options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", size]}
            wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
            address = f"http://127.0.0.1:{found[1]}"
            session = post(f"{address}/session", wanted)["sessionId"]
            try:
                yield Browser(address, session)
            finally:
                _answer(urllib.request.Request(f"{address}/session/{session}", method="DELETE"))
        finally:
            driver.terminate()
