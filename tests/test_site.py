"""The site that `make docs` builds: complete, without a warning, and fit to read in a real browser."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from browsing import chromium
from launch import launch
from pages import ROOT

import conrl

TOO_WIDE = """() => [...document.querySelectorAll("pre, dt.sig, .table-wrapper")]
  .filter((block) => block.scrollWidth > block.clientWidth + 1).map((block) => block.textContent.slice(0, 80))"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    words = ["--quiet", "--fail-on-warning", "--conf-dir", "docs", "--doctree-dir", str(out / "trees")]
    done = launch([sys.executable, "-m", "sphinx", *words, ".", str(out / "site")], cwd=ROOT)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return out / "site"


def test_the_site(site: Path) -> None:
    """In one test, as each worker of a run would build a site of its own."""
    texts = {path: path.read_text() for path in sorted(site.rglob("*.html"))}
    assert len(texts) >= 50
    every_page_is_in_the_menu(site, texts)
    every_link_leads_somewhere(site, texts)
    every_public_name_is_explained(site)
    with chromium() as browser:
        pages_fit_the_screen(browser, site)
        search_and_copy_work(browser, site)


def every_page_is_in_the_menu(site: Path, texts: dict[Path, str]) -> None:
    menu = texts[site / "index.html"]
    for page in (ROOT / "docs").rglob("*.md"):
        assert f'href="{page.relative_to(ROOT).with_suffix(".html")}"' in menu, page


def every_link_leads_somewhere(site: Path, texts: dict[Path, str]) -> None:
    """And nothing is loaded from a network."""
    anchors = {path: set(re.findall(r"id=\"([^\"]+)\"", text)) for path, text in texts.items()}
    for path, text in texts.items():
        assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=\"https?:", text), path
        for link in re.findall(r"(?:href|src)=\"([^\"]+)\"", text):
            name, _, anchor = html.unescape(unquote(link)).partition("#")
            if re.match(r"[a-z]+:", link):
                continue
            target = (path.parent / name.partition("?")[0]).resolve() if name else path
            assert target.exists(), f"{path.name}: {link}"
            if anchor and target in anchors:
                assert anchor in anchors[target], f"{path.name}: {link}"


def every_public_name_is_explained(site: Path) -> None:
    text = "".join(path.read_text() for path in (site / "docs" / "reference").glob("*.html"))
    explained = set(re.findall(r"<dt class=\"sig[^>]*id=\"conrl\.([^\"]+)\"", text))
    modules = {"convex", "envs", "experiments", "learners", "planners", "targets", "theory"}
    assert {name for name in conrl.__all__ if not name.startswith("_")} - modules <= explained
    assert all(any(name.startswith(f"{module}.") for name in explained) for module in modules)
    assert "Plan.to_html" in explained
    assert " at 0x" not in text
    assert "TypeAlias" not in text


def pages_fit_the_screen(browser: Any, site: Path) -> None:
    """No page is wider than the window, and on a desktop no code is wider than its box."""
    for width in (1440, 1280, 390):
        tab = browser.new_context(viewport={"width": width, "height": 900}).new_page()
        for path in sorted(site.rglob("*.html")):
            tab.goto(path.as_uri())
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
            if width > 1000:
                assert tab.evaluate(TOO_WIDE) == [], (path, width)
        tab.context.close()


def search_and_copy_work(browser: Any, site: Path) -> None:
    light, dark = (browser.new_context(color_scheme=scheme).new_page() for scheme in ("light", "dark"))
    colors = []
    for tab in (light, dark):
        tab.goto((site / "docs" / "tutorial.html").as_uri())
        colors.append(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colors[0] != colors[1]
    assert light.locator("button.copybtn").count() > 5
    light.goto(f"{(site / 'search.html').as_uri()}?q=knapsack")
    light.wait_for_selector("#search-results a")
    assert light.locator("#search-results a", has_text="Knapsack").count() > 0
