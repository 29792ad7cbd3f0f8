"""A Chromium without a screen that opens files, for tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


def missing() -> str:
    """What is not there, as a reason to skip; empty where all is."""
    if find_spec("selenium") is None:
        return "selenium is not installed"
    return "" if CHROMIUM and DRIVER else "chromium and chromedriver are not installed"


class Page:
    """A report in the browser."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path, address: str = "") -> None:
        """Open a report afresh, and wait until it is there."""
        self.driver.get("about:blank")
        self.driver.get(path.as_uri() + address)
        assert self.driver.execute_async_script("window.report.ready.then(arguments[0])") is True, self.errors()

    def ask(self, what: str, *arguments: Any) -> Any:
        """What `report.<what>(...)` says."""
        return self.driver.execute_script(f"return window.report.{what}(...arguments)", *arguments)

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a script."""
        return self.driver.execute_script(script, *arguments)

    def press(self, *keys: str) -> None:
        """Type keys where the focus is; what they change is drawn at once."""
        from selenium.webdriver.common.action_chains import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()
        self.ask("drawNow")

    def mouse(
        self, x: float, y: float, *, click: bool = False, drag_to: tuple[float, float] | None = None, shift: bool = False
    ) -> None:
        """Point, click or drag; in CSS pixels of the window."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        chain = ActionChains(self.driver, duration=0)
        pointer, keys = chain.w3c_actions.pointer_action, chain.w3c_actions.key_action
        steps = [lambda: pointer.move_to_location(round(x), round(y))]
        if drag_to is not None:
            there = (round(drag_to[0]), round(drag_to[1]))
            steps += [pointer.pointer_down, lambda: pointer.move_to_location(*there), pointer.pointer_up]
        elif click:
            steps += [pointer.pointer_down, pointer.pointer_up]
        if shift:
            chain.key_down(Keys.SHIFT)
        for step in steps:
            step()
            keys.pause()  # keyboard and mouse act turn by turn
        if shift:
            chain.key_up(Keys.SHIFT)
        chain.perform()

    def errors(self) -> list[str]:
        """What the console has complained of since the last asking."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@contextmanager
def browser(profile: Path, width: int = 1280, height: int = 800) -> Iterator[Page]:
    """A browser with a window of that size."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.binary_location = CHROMIUM or ""
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        driver.set_script_timeout(60)
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        yield Page(driver)
    finally:
        driver.quit()


def prefer(page: Page, scheme: str) -> None:
    """Let the system prefer `light` or `dark`."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
