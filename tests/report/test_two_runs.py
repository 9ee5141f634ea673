"""The page of two runs: what it says, and in a real browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from click.testing import CliRunner
from tests.report.browser import chromium, visit
from tests.report.page_reader import PageReader

import everybit
from everybit.api.report_two import write_two_run_page
from everybit.cli import everybit as command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _train(run: Path, *, flip: bool) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    with everybit.Guard(model, optimizer, run=run, on_finding="record", trace="module"):
        for step in range(8):
            if flip and step == 3:
                model[2].weight.detach().numpy().view("int32")[1, 3] ^= 1 << 24
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("two")
    _train(folder / "a", flip=False)
    _train(folder / "b", flip=True)
    return folder / "a", folder / "b"


@pytest.fixture(scope="module")
def page(runs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    write_two_run_page(everybit.diff(*runs), *runs, path)
    return path


def test_it_says_where_they_part_over_steps_and_modules(page: Path) -> None:
    text = PageReader(page.read_text()).text
    for piece in (
        "The runs part at step 3: corruption.",
        "Over the steps",
        "steps 0 to 7",
        "Over the modules",
        "Distance of the losses, relative",
        "MEM601",
    ):
        assert piece in text, piece
    assert page.stat().st_mode & 0o777 == 0o600


def test_the_strips_are_equal_up_to_the_step(page: Path) -> None:
    text = re.sub(r"\s+", " ", page.read_text())
    # Each link's first differing step, in the last column.
    rows = re.findall(r'<tr><th scope="row">(.*?)</tr>', text.partition("strips modules")[0])
    told = {re.sub("<[^>]+>", " ", row).split()[0]: row for row in rows}
    assert re.search(r">3</td>$", told["loss"])
    assert re.search(r">-</td>$", told["batch"])
    assert re.search(r'<rect x="0" y="0" width="3" height="14" class="equal">', told["loss"])


def test_it_is_well_formed_and_asks_the_network_for_nothing(page: Path) -> None:
    made = page.read_text()
    read = PageReader(made)
    assert len(read.ids) == len(set(read.ids))
    assert {link[1:] for link in read.links} <= set(read.ids)
    own = made.replace("/*! https://github.com/leeoniya/uPlot (v1.6.32) */", "")
    assert not re.search(r"https?://|url\(|@import|fetch\(|XMLHttpRequest|WebSocket", own)
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & set(read.tags)
    assert "style" not in [name for _, name, _ in read.attributes]


def test_runs_that_are_equal_have_a_page_too(runs: tuple[Path, Path], tmp_path: Path) -> None:
    write_two_run_page(everybit.diff(runs[0], runs[0]), runs[0], runs[0], tmp_path / "p.html")
    assert "No value parts" in PageReader((tmp_path / "p.html").read_text()).text


def test_both_commands_write_it(runs: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = map(str, runs)
    for asked in (["diff", a, b], ["report", a, "--against", b]):
        out = tmp_path / f"{asked[0]}.html"
        result = CliRunner().invoke(command, [*asked, "--out", str(out)], standalone_mode=False)
        assert result.exception is None
        assert "The runs part at step 3" in PageReader(out.read_text()).text
        assert "MEM601" in result.stdout


def test_python_writes_it_too(runs: tuple[Path, Path], tmp_path: Path) -> None:
    page = everybit.report(runs[0], tmp_path / "page.html", against=runs[1])
    assert page == tmp_path / "page.html"
    assert "The runs part at step 3" in PageReader(page.read_text()).text


def test_a_page_of_files_or_in_no_folder_is_refused_at_once(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    file = tmp_path / "model.pt"
    torch.save({"w": torch.ones(3)}, file)
    for asked in (
        ["diff", str(file), str(file), "--out", str(tmp_path / "p.html")],
        ["diff", *map(str, runs), "--out", str(tmp_path / "gone" / "p.html")],
    ):
        result = CliRunner().invoke(command, asked, standalone_mode=False)
        assert isinstance(result.exception, everybit.EverybitError)
        assert not result.stdout


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.mark.parametrize(
    ("theme", "language", "size"), [("light", "en", "desktop"), ("dark", "zh", "phone")]
)
def test_axe_finds_nothing_serious_and_nothing_overflows(
    browser: Any, page: Path, theme: str, language: str, size: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with visit(browser, page, theme=theme, language=language, size=size) as seen:
        tab = seen.page
        tab.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        chart = tab.locator(".chart.distance")
        chart.scroll_into_view_if_needed()
        chart.locator("canvas").wait_for(timeout=5000)
        assert "B" in tab.locator(".chart.loss .values").text_content()
        found = Axe().run(tab, options={"resultTypes": ["violations"]}).response
        grave = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
        assert [(v["id"], v["nodes"][0]["html"]) for v in grave] == []
        assert seen.troubles == []
        assert [url for url in seen.requests if not url.startswith("file:")] == []
