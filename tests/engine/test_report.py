"""`report`: one page that says everything, needs nothing else, and quotes what others wrote."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import webbrowser
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from proof import __main__ as commands
from proof.config import Config
from proof.engine.command_line import to_yaml
from proof.engine.errors import UsageError
from proof.engine.report import CAPTIONS, MOST_ROWS, write_report
from proof.engine.run_directory import RunDirectory
from proof.engine.run_files import is_finished
from proof.task.config import TaskConfig

from .test_compare import make

DEFAULTS = to_yaml(Config(), TaskConfig())
HOSTILE = "<script>alert(1)</script>"
VOID = {"meta", "img"}


class Page(HTMLParser):
    """What is on a page; every element must be closed."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(file.read_text(encoding="utf-8"))
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open += [] if tag in VOID else [tag]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if "style" not in self.open else ""

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with pictures, whose name, flags, metrics and model try to be HTML."""
    directory = tmp_path / f"2026-01-02-030405-{HOSTILE.replace('/', '-')}"
    run = make(directory, [2.0, 1.0], width=64, note=f"'{HOSTILE}'", epochs=2)
    for name in (*CAPTIONS, f"a_&_{HOSTILE.replace('/', '-')}.png"):
        matplotlib.image.imsave(run / name, np.random.default_rng(0).random((300, 1200)))
    (run / "model.txt").write_text(f"{HOSTILE} a layer\n" * 50)
    results = json.loads((run / "results.json").read_text())
    results |= {f"test_{HOSTILE}": 0.5, "test_nothing": None, "skipped_steps": 3}
    (run / "results.json").write_text(json.dumps(results))
    return run


@pytest.mark.quick
def test_the_page_has_what_the_run_left(run: Path) -> None:
    page = Page(write_report(run, DEFAULTS))
    for part in (f"proof: {run.name}", "started 2026-01-02 03:04:05", "--epochs2None", "--width64-",
                 f"--note{HOSTILE}-", "test loss", "1.25", "skipped steps3", "git: cleanTrue",
                 f"{HOSTILE} a layer", "a & <script>", "the last 2 of 2 validations"):  # fmt: skip
        assert part in page.text.replace("\n", ""), part
    assert "--seed0" in page.text[page.text.index("All flags") :]
    assert "--seed" not in page.text[: page.text.index("All flags")]


@pytest.mark.quick
def test_the_page_needs_nothing_else_and_runs_nothing(run: Path) -> None:
    page = Page(write_report(run, DEFAULTS))
    assert not page.all("script")
    assert len(page.all("img")) == 4
    for image in page.all("img"):
        assert str(image["src"]).startswith("data:image/png;base64,iVBORw0KGgo")
        assert image["alt"]
    addresses = [a.get(n) for _, a in page.elements for n in ("href", "src") if n in a]
    assert all(str(address).startswith("data:") for address in addresses)
    assert page.all("html") == [{"lang": "en"}]
    assert not any(name.startswith("on") for _, a in page.elements for name in a)


def odd_pictures(directory: Path) -> None:
    """Put files into a run directory that end in .png and are no pictures, and one that is."""
    (directory / "empty.png").touch()
    (directory / "cut.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (directory / "text.png").write_text("a text that is longer than the header of a picture")
    (directory / "link.png").symlink_to(directory / "nowhere")
    (directory / "folder.png").mkdir()
    os.mkfifo(directory / "pipe.png")
    with (directory / "large.png").open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.truncate(3 * 2**30)  # of holes
    matplotlib.image.imsave(os.fsdecode(os.fsencode(directory / "named ") + b"\xff.png"), [[0.5]])


@pytest.mark.quick
def test_files_that_are_no_pictures_are_left_out_of_the_page(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd_pictures(run)
    (run / "model.txt").unlink()
    (run / "model.txt").mkdir()
    page = Page(write_report(run, DEFAULTS))
    assert len(page.all("img")) == 5
    assert "named ?" in page.text

    def refuse(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert not Page(write_report(run, DEFAULTS)).all("img")


@pytest.mark.quick
def test_an_unfinished_run_has_a_page_too(tmp_path: Path) -> None:
    losses = [float(n) for n in range(MOST_ROWS + 7)]
    page = Page(write_report(make(tmp_path / "run", losses, finished=False), DEFAULTS))
    assert f"unfinished, {4 * len(losses)} steps" in page.text
    assert f"the last {MOST_ROWS} of {len(losses)}" in page.text
    started = make(tmp_path / "started", [], finished=False)
    (started / "history.csv").unlink()
    assert "unfinished, 0 steps" in Page(write_report(started, DEFAULTS)).text
    with pytest.raises(UsageError, match="not a run directory"):
        write_report(tmp_path, DEFAULTS)


@pytest.mark.quick
def test_the_page_of_a_run_whose_end_failed_does_not_make_it_finished(tmp_path: Path) -> None:
    path = make(tmp_path / "run", [1.0])
    assert not is_finished(path)
    page = write_report(path, DEFAULTS, is_end=False)
    assert page.name == "report-unfinished.html"
    assert not is_finished(path)
    RunDirectory(path).write_results({})
    assert not page.exists()
    write_report(path, DEFAULTS)
    assert is_finished(path)
    assert write_report(path, DEFAULTS, is_end=False).name == "report.html"
    (path / "report.html").unlink()
    (path / "report.html").mkdir()  # can't be written
    with pytest.raises(UsageError, match=rf"then: python train\.py --resume {path}\.$"):
        write_report(path, DEFAULTS)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("display", "flags", "opens"),
    [(":0", {}, True), ("", {}, False), (":0", {"open": False}, False)],
)
def test_the_command_opens_the_page_where_there_is_a_display(
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    display: str,
    flags: dict[str, Any],
    opens: bool,
) -> None:
    (run / "report.html").touch()  # the run is finished
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    for name in ("BROWSER", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.setattr("sys.platform", "linux")
    commands.Report(run, **flags)()
    assert capsys.readouterr().out == f"{run / 'report.html'}\n"
    assert opened == [(run / "report.html").as_uri()] * opens


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    """A headless Chromium that logs its console and what it asks for."""
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium isn't installed")
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if not all(programs):
        pytest.skip("needs chromium and chromedriver: apt-get install chromium chromium-driver")
    options = selenium.ChromeOptions()
    options.binary_location = programs[0]
    for argument in ("--headless=new", "--no-sandbox", f"--user-data-dir={tmp_path / 'browser'}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = selenium.ChromeService(programs[1])
    driver = selenium.Chrome(options=options, service=service)
    yield driver
    driver.quit()


def test_a_browser_shows_it_without_an_error_and_asks_for_nothing(run: Path, browser: Any) -> None:
    page = write_report(run, DEFAULTS)
    for width, scheme in itertools.product((400, 1200), ("light", "dark")):
        look(browser, page, width, scheme)


def look(browser: Any, page: Path, width: int, scheme: str) -> None:
    screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.get(page.as_uri())
    browser.save_screenshot(str(page.with_name(f"{scheme}-{width}.png")))
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {
        event["params"]["request"]["url"].partition(",")[0]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
        and event["params"]["documentURL"] == page.as_uri()
    }
    assert asked == {page.as_uri(), "data:image/png;base64"}

    def seen(script: str) -> Any:
        return browser.execute_script(f"return {script}")

    assert seen("document.title") == f"proof: {page.parent.name}"
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not seen(wide), "it must be scrolled sideways"
    assert seen("[...document.images].every(i => i.complete && i.naturalWidth == 1200)")
    red, green, blue = map(int, json.loads(
        seen("getComputedStyle(document.body).color").replace("rgb(", "[").replace(")", "]")
    ))  # fmt: skip
    assert (red + green + blue > 384) == (scheme == "dark")
    assert len(browser.find_elements("css selector", "details:not([open])")) == 3
