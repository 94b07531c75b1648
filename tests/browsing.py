"""Pages in a real browser: opened alone, and watched for requests and mistakes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from launch import PATIENCE


@contextmanager
def chromium() -> Iterator[Any]:
    """Debian's browser, without its sandbox; skips the test where there is none."""
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        started = playwright.chromium.launch(executable_path=found, args=flags, timeout=1000.0 * PATIENCE)
        try:
            yield started
        finally:
            started.close()


@contextmanager
def watched(browser: Any, page: Path, width: int = 1200, scheme: str = "light") -> Iterator[Any]:
    """The page, open; afterwards nothing may have been asked of anyone, nor have gone wrong."""
    asked: list[str] = []
    wrong: list[str] = []
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab = context.new_page()
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("console", lambda message: wrong.append(message.text))
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("dialog", lambda dialog: wrong.append(dialog.message))
    tab.set_default_timeout(1000.0 * PATIENCE)
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-ready]", state="attached")
    try:
        yield tab
    finally:
        context.close()
    assert wrong == []
    assert asked == [page.as_uri()]


def until(tab: Any, condition: str) -> None:
    """Playwright's own waiting evaluates texts, which the page's policy forbids."""
    end = time.monotonic() + PATIENCE
    while not tab.evaluate(condition):
        assert time.monotonic() < end, f"never came true: {condition}"
        tab.wait_for_timeout(50)


SPLIT_WORDS = """() => {
  const split = [];
  for (const element of document.querySelectorAll("th, h1, h3, h4, label, button, figcaption, legend")) {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      for (const match of node.textContent.matchAll(/[\\p{L}\\p{N}_]+/gu)) {
        const range = document.createRange();
        range.setStart(node, match.index);
        range.setEnd(node, match.index + match[0].length);
        const lines = new Set([...range.getClientRects()].map((r) => Math.round(r.top)));
        if (lines.size > 1 && match[0].length <= 24) split.push(match[0]);
      }
    }
  }
  return split;
}"""


def split_words(tab: Any) -> list[str]:
    """Words of headings and labels that are broken across lines, but for those too long for any line."""
    found: list[str] = tab.evaluate(SPLIT_WORDS)
    return found
