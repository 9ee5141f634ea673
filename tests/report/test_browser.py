"""The page in a real browser: speed, reach, reading for all, and what it does."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from tests.report.browser import chromium, visit
from tests.report.page_maker import HOSTILE, log, page, timelines, whole_verdict
from tests.report.run_maker import flip

from everybit.core.finding import Location
from everybit.core.rule import rule
from everybit.report.run_summary import State
from everybit.report.timelines import MAX_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


def scalars(step: int) -> dict[str, float]:
    return {
        "grad_norm": 1.0 + step % 7,
        "weight_norm": 40.0 + step / 1000,
        "update_norm": 0.01,
        "scale": 65536.0 / 2 ** (step // 100 % 4),
        "lr": 3e-4,
    }


def loss(step: int) -> float:
    return math.nan if 700 <= step < 720 else 9.0 if step == 400 else 3.0 / (1 + step / 50)


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks, one of them dead, four findings, NaN losses."""
    note = rule("RUN151").finding("rank 1 was killed", where=Location(rank=1, step=640))
    verdict = whole_verdict(findings=(flip(3), flip(400), flip(401), note))
    drawn = timelines(1000, loss, ranks=2, scalars=scalars, watched=(3, 400, 401))
    logs = [log(1000), log(640, rank=1, state=State.KILLED, torn=True)]
    path = tmp_path_factory.mktemp("rich") / "page.html"
    path.write_text(page(verdict, logs, drawn), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("theme", "language", "size"),
    list(product(("light", "dark"), ("en", "zh"), ("desktop", "phone"))),
)
def test_axe_finds_nothing_serious_and_nothing_overflows(browser, rich, theme, language, size):
    from axe_playwright_python.sync_playwright import Axe

    with visit(browser, rich, theme=theme, language=language, size=size) as seen:
        tab = seen.page
        if (theme, language, size) in {("light", "en", "desktop"), ("dark", "zh", "phone")}:
            tab.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert (
            tab.evaluate("document.documentElement.lang") == {"en": "en", "zh": "zh-Hans"}[language]
        )
        found = Axe().run(tab, options={"resultTypes": ["violations"]}).response
        grave = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
        assert [(v["id"], v["nodes"][0]["html"]) for v in grave] == []
        assert len(found["passes"]) > 20


def long_page(folder: Path, num_steps: int) -> Path:
    width = max(1, -(-num_steps * 3 * 7 // MAX_NUMBERS)) if num_steps > 20_000 else 1
    drawn = timelines(num_steps, scalars=scalars, width=width, watched=(min(400, num_steps - 1),))
    file = folder / f"{num_steps}.html"
    file.write_text(page(whole_verdict(), [log(num_steps)], drawn), encoding="utf-8")
    return file


@pytest.mark.parametrize(("num_steps", "limit"), [(10_000, 3.0), (100_000, 5.0)])
def test_a_long_run_opens_at_once_and_weighs_little(browser, tmp_path, num_steps, limit):
    """The time is told in openings of the page of 100 steps, beside it: machines differ."""
    short, long = long_page(tmp_path, 100), long_page(tmp_path, num_steps)
    assert long.stat().st_size < 2_000_000
    times: dict[Path, list[float]] = {short: [], long: []}
    for _ in range(5):
        for file, seen_s in times.items():
            with visit(browser, file) as seen:
                seen_s.append(seen.load_s)
                assert seen.page.locator(".chart.loss canvas").count() == 1
        if min(times[long]) < limit * min(times[short]):
            break
    assert min(times[long]) < limit * min(times[short])


def test_zoom_reset_log_scale_and_keys(browser, rich):
    with visit(browser, rich) as seen:
        tab = seen.page
        told = tab.locator("#range")
        assert told.text_content() == "All steps · 0 to 999"
        plot = tab.locator(".chart.loss .u-over")
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        y = box["y"] + 60
        tab.mouse.move(box["x"] + 0.25 * box["width"], y)
        tab.mouse.down()
        tab.mouse.move(box["x"] + 0.5 * box["width"], y, steps=4)
        tab.mouse.up()
        tab.mouse.move(5, 5)
        low, high = (int(part) for part in told.text_content().split(" to "))
        assert abs(low - 250) <= 3
        assert abs(high - 500) <= 3
        tab.get_by_role("button", name="Reset zoom").click()
        assert told.text_content() == "All steps · 0 to 999"
        tab.get_by_role("button", name="Zoom in").click()
        assert told.text_content() == "250 to 749"
        tab.locator(".chart.loss .plot").focus()
        tab.keyboard.press("0")
        tab.keyboard.press("End")
        assert "rank 0" in tab.locator("#heard").text_content()
        # A point may stand for two steps where the screen has fewer pixels.
        assert told.text_content() in ("step 999", "steps 998 to 999")
        tab.keyboard.press("ArrowLeft")
        assert told.text_content() in ("step 998", "steps 996 to 997")
        button = tab.locator(".chart.loss button.log")
        before = button.get_attribute("aria-pressed")
        button.click()
        assert button.get_attribute("aria-pressed") != before
        assert tab.locator(".chart.loss canvas").count() == 1


def test_every_chart_is_drawn_when_it_is_reached(browser, rich):
    with visit(browser, rich) as seen:
        tab = seen.page
        for name in ("grad_norm", "weight_norm", "update_norm", "scale", "lr", "guard"):
            chart = tab.locator(f".chart.{name}")
            chart.scroll_into_view_if_needed()
            chart.locator("canvas").wait_for(timeout=5000)


def test_a_marker_leads_to_its_finding(browser, rich):
    with visit(browser, rich) as seen:
        tab = seen.page
        links = tab.locator("#markers a")
        told = [link.get_attribute("aria-label") for link in links.all()]
        assert told == ["MEM601, step 3", "MEM601, step 400, and 1 more", "RUN151, step 640"]
        links.nth(1).click()
        assert tab.evaluate("document.querySelector(':target').id") == f"f-{flip(400).id}"


def test_the_switches_speak_and_paint_and_are_remembered(browser, rich):
    with visit(browser, rich) as seen:
        tab = seen.page
        assert tab.get_by_role("heading", name="Timelines").is_visible()
        light = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        tab.get_by_role("button", name="中文").click()
        assert tab.get_by_role("heading", name="时间线").is_visible()
        assert not tab.get_by_role("heading", name="Timelines").count()
        assert tab.locator("#range").text_content() == "全部步 · 0 至 999"
        assert "有发现" in tab.title()
        tab.get_by_role("button", name="深色").click()
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != light
        tab.reload()
        seen.requests.pop()
        assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
        assert tab.get_by_role("heading", name="时间线").is_visible()


def test_without_scripts_the_tables_tell_all(browser, rich):
    with visit(browser, rich, java_script_enabled=False) as seen:
        tab = seen.page
        assert tab.locator(".plot").first.is_hidden()
        assert tab.get_by_text("The charts need scripts").is_visible()
        tab.locator(".chart.loss summary").click()
        assert tab.locator(".chart.loss table").is_visible()
        assert tab.get_by_role("button", name="中文").count() == 0


NUMBERS = {
    "nan": lambda step: math.nan,
    "infinite": lambda step: math.inf if step % 2 else -math.inf,
    "huge": lambda step: -1.7e308 if step % 2 else 1.7e308,
    "tiny": lambda step: 5e-324 * (step + 1),
    "powers": lambda step: 10.0 ** (step * 10),
    "negative": lambda step: -(10.0**step),
    "zero": lambda step: 0.0,
    "constant": lambda step: 1e308,
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("num_steps", [1, 30])
def test_no_number_breaks_a_chart(browser, tmp_path, name, num_steps):
    file = tmp_path / "page.html"
    drawn = timelines(num_steps, NUMBERS[name], watched=(3,))
    file.write_text(page(whole_verdict(), [log(num_steps)], drawn), encoding="utf-8")
    with visit(browser, file) as seen:
        tab = seen.page
        chart = tab.locator(".chart.loss")
        assert chart.locator("canvas").count() == 1
        button = chart.locator("button.log")
        if button.is_enabled():
            button.click()
        tab.get_by_role("button", name="Zoom in").click()
        tab.get_by_role("button", name="Zoom out").click()


def test_a_hostile_run_scripts_nothing(browser, tmp_path):
    finding = rule("MEM601").finding(
        HOSTILE, where=Location(step=1, parameter=HOSTILE, path=HOSTILE), remedy=HOSTILE
    )
    header = {"command": [HOSTILE], "environment": {HOSTILE: {HOSTILE: [HOSTILE]}}}
    drawn = timelines(5, scalars=lambda step: {HOSTILE: 1.0, "lr": math.nan}, watched=(1,))
    made = page(whole_verdict(findings=(finding,)), [log(5, header=header)], drawn, run=HOSTILE)
    file = tmp_path / "page.html"
    file.write_text(made, encoding="utf-8")
    with visit(browser, file) as seen:
        tab = seen.page
        assert tab.locator("img").count() == 0
        assert tab.locator("#markers a").count() == 1
        assert "<script>alert(1)</script>" in tab.locator(".message").text_content()


def test_the_policy_stops_a_script_that_got_in_all_the_same(browser, tmp_path):
    made = page(whole_verdict(findings=()))
    file = tmp_path / "page.html"
    planted = (
        "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"
    )
    file.write_text(made.replace("</main>", planted + "</main>"), encoding="utf-8")
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(file.as_uri())
    assert "owned" not in tab.title()
    context.close()
