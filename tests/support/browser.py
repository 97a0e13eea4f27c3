"""Headless Chromium, driven over its own protocol (CDP): real keys, real layout, what the console and the
network said. `launch` needs an installed Chromium; scripts/setup brings it on Debian.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-port=0",
)
_LISTENS = re.compile(r"DevTools listening on (ws://\S+)")
_WAIT_S = 30.0
#: key -> code, virtual key code, text
_KEYS = {
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    " ": ("Space", 32, " "),
    "PageUp": ("PageUp", 33, ""),
    "PageDown": ("PageDown", 34, ""),
    "End": ("End", 35, ""),
    "Home": ("Home", 36, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "+": ("Equal", 187, "+"),
    "0": ("Digit0", 48, "0"),
}


_PLACE = """(async () => {
  let before = "";
  while (true) {
    const e = document.querySelector(%s);
    e.scrollIntoView({block: "center", inline: "center"});
    await new Promise(requestAnimationFrame);
    const r = e.getBoundingClientRect();
    const now = `${r.x} ${r.y} ${r.width} ${r.height}`;
    if (e.isConnected && now === before) return [r.x + r.width / 2, r.y + r.height / 2];
    before = now;
  }
})()"""


class Browser:
    """One page, with cookies and storage of its own. `errors` are what the console called errors, `requests`
    the addresses that were asked for.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0
        self._session: str | None = None
        self._context = ""
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._context = self.send("Target.createBrowserContext")["browserContextId"]
        target = self.send("Target.createTarget", url="about:blank", browserContextId=self._context)[
            "targetId"
        ]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        self.size(1280, 800)

    def close(self) -> None:
        self._session = None
        self.send("Target.disposeBrowserContext", browserContextId=self._context)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its result; what happens meanwhile is noted. Raises RuntimeError, TimeoutError."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(timeout=_WAIT_S))
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            if answer.get("sessionId") == self._session:
                self._note(answer.get("method"), answer.get("params") or {})

    def _note(self, event: str | None, params: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(item.get("value")) for item in params["args"]))
        elif event == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    def size(self, width: int, height: int) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def dark(self, yes: bool) -> None:
        """What the system prefers, as the page sees it."""
        value = "dark" if yes else "light"
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def open(self, url: str) -> None:
        self.send("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression, promises awaited. Raises RuntimeError."""
        answer = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, script: str, seconds: float = _WAIT_S) -> None:
        """Waits until the expression is true. Raises TimeoutError with what the page says."""
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(RuntimeError):  # the document may be changing
                if self.run(f"Boolean({script})"):
                    return
            if time.monotonic() > deadline:
                text = self.run("document.body.innerText.slice(0, 2000)")
                raise TimeoutError(f"not in {seconds} s: {script}; {self.errors}; the page says: {text}")
            time.sleep(0.05)

    def press(self, *keys: str, shift: bool = False) -> None:
        """Keys, one after another, as a keyboard gives them."""
        for key in keys:
            code, number, text = _KEYS[key]
            common = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": 8 * shift}
            self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
            self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def click(self, selector: str) -> None:
        """A click of the mouse in the middle of an element, once it stays at its place for two frames."""
        place = self.run(_PLACE % json.dumps(selector))
        at = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, **at)

    def screenshot(self, path: Path) -> None:
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=False)["data"]
        path.write_bytes(base64.b64decode(data))

    def text(self, selector: str) -> str:
        """Visible text of an element; "" without it."""
        found: str = self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
        return found


@contextlib.contextmanager
def launch(executable: str) -> Iterator[ClientConnection]:
    """A browser with a profile of its own, for `Browser`s; it and its processes are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="hoodie-chromium-", ignore_cleanup_errors=True) as profile:
        log = Path(profile, "stderr.txt")
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [executable, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )
        try:
            address = _address(process, log)
            # no pings: they draw on the global `random` in a thread, and hypothesis fails where that moves
            with connect(address, max_size=None, open_timeout=_WAIT_S, ping_interval=None) as socket:
                yield socket
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if found := _LISTENS.search(log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"Chromium did not start: {log.read_text(errors='replace')[-2000:]}")
