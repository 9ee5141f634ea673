"""A headless Chromium for the page's tests: the system's own, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZES = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
LOCALES = {"en": "en-US", "zh": "zh-CN"}


def missing(reason: str) -> None:
    """A browser is needed in CI; elsewhere the tests that need one say why they are skipped."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}: the page is not tested without a browser")
    pytest.skip(reason)


def find_chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed")
    path = find_chromium()
    if path is None:
        missing("no chromium on this machine (apt-get install chromium)")
    with sync_playwright() as driver:
        # Containers run as root, where the sandbox refuses to start.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """One look at a page; whatever it logs, asks for or pops up is remembered."""

    def __init__(self, browser: Any, file: Path, **options: Any) -> None:
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.on("console", lambda said: self.troubles.append(said.text))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.troubles.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())
        self.load_s = self.page.evaluate(
            "performance.getEntriesByType('navigation')[0].loadEventEnd / 1000"
        )


@contextmanager
def visit(
    browser: Any,
    file: Path,
    *,
    theme: str = "light",
    language: str = "en",
    size: str = "desktop",
    **options: Any,
) -> Iterator[Visit]:
    seen = Visit(
        browser,
        file,
        color_scheme=theme,
        locale=LOCALES[language],
        viewport=SIZES[size],
        **options,
    )
    yield seen
    seen.context.close()
    assert seen.troubles == []
    assert seen.requests == [file.as_uri()]
