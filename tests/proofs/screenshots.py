"""Screenshots of a real run: the terminal, TensorBoard, and the run's page.

They need Chromium and its driver: Debian's packages chromium and chromium-driver.
"""

from __future__ import annotations

import contextlib
import fcntl
import html
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cookiecutter.main import cookiecutter

from . import ROOT, Page

PICTURES = ROOT / "docs" / "pictures"
COLUMNS, ROWS = 80, 24  # of the terminal
BAR = re.compile(r"\d left")  # what only the progress bar has
SECONDS = 60  # for a page to be drawn
TERMINAL = """<meta charset="utf-8"><body style="margin:0;background:#1c1c1c">
<pre style="margin:0;padding:12px;color:#ddd;font:15px/1.25 monospace;width:max-content">{}</pre>
"""
PAGE = """# What you see

Screenshots of one run of the default project, made by `nox -s screenshots`. What each starter draws
is in the [gallery](pictures.md).

## The terminal

While it trains, 80 columns wide:

![A terminal: the run's facts, a row for each validation, and a progress bar](pictures/training.png)

At its end:

![A terminal: the last rows, a table of results, what to type next](pictures/end.png)

## TensorBoard

`tensorboard --logdir runs`: training and validation share their charts.

![TensorBoard: charts with lines for training and validation](pictures/tensorboard.png)

## The page of a run

`report.html` in the run directory; `python -m <package> report RUN` opens it.

![A web page: test results, a table, flags, curves](pictures/report.png)
"""


def make(short: bool) -> Page:
    """The page; wrong are pictures that don't show what they must.

    The short form trains one epoch and writes no picture.
    """
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(cookiecutter(str(ROOT), no_input=True, output_dir=scratch))
        output = in_terminal([sys.executable, "train.py", *["--epochs=1"] * short], project)
        lines = screen(output)
        bars = [output.find("\r", found.end()) for found in BAR.finditer(output)]
        training = screen(output[: bars[len(bars) // 2]]) if bars else []
        wrong = ["no progress bar"] * (not bars)
        wrong += [f"wider than {COLUMNS}: {line}" for line in lines if len(line) > COLUMNS]
        if short:
            return Page("\n".join(lines), wrong)
        PICTURES.mkdir(exist_ok=True)
        (report,) = project.glob("runs/*/report.html")
        with browser() as driver:
            for name, shown in (("training", training), ("end", lines)):
                file = Path(scratch) / f"{name}.html"
                file.write_text(TERMINAL.format(html.escape("\n".join(shown[-ROWS:]))))
                driver.get(file.as_uri())
                driver.find_element("css selector", "pre").screenshot(str(PICTURES / f"{name}.png"))
            driver.get(report.as_uri())
            driver.save_screenshot(str(PICTURES / "report.png"))
            with tensorboard(project) as address:
                driver.get(f"{address}?darkMode=false#timeseries")
                wait_for(driver, "line-chart-component, .line-chart, line-chart")
                driver.save_screenshot(str(PICTURES / "tensorboard.png"))
    return Page(PAGE, wrong)


def in_terminal(command: list[str], directory: Path) -> str:
    """What a command writes to a terminal.

    Raises:
        ChildProcessError: its exit code isn't 0.
    """
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    with subprocess.Popen(command, cwd=directory, stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        output = b""
        with contextlib.suppress(OSError):  # how Linux says that the other end is closed
            while read := os.read(ours, 4096):
                output += read
    os.close(ours)
    if process.returncode:
        raise ChildProcessError(output.decode(errors="replace"))
    return output.decode(errors="replace")


def screen(output: str) -> list[str]:
    """The lines of a terminal after an output with carriage returns."""
    lines = []
    for line in output.replace("\r\n", "\n").split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown.rstrip())
    return lines


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("headless=new", "no-sandbox", "hide-scrollbars", "window-size=1000,900"):
        options.add_argument(f"--{argument}")
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


@contextlib.contextmanager
def tensorboard(project: Path) -> Iterator[str]:
    """The address of a TensorBoard that shows a project's runs."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", "runs", "--port", "0"]
    with subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE, text=True) as server:
        try:
            for line in server.stderr or ():
                if address := re.search(r"http://\S+:\d+/", line):
                    yield address[0]
                    return
            raise ChildProcessError("TensorBoard didn't start")
        finally:
            server.kill()


def wait_for(driver: Any, selector: str) -> None:
    """Wait until a page has such an element, and a moment for it to be drawn.

    Raises:
        TimeoutException: it hasn't.
    """
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, SECONDS).until(lambda d: d.find_elements("css selector", selector))
    time.sleep(3)
