"""The page of a study in a browser: no error, no request, and no script of a table runs. Skipped without Chromium."""

import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from mercer.studies.protocol import study
from mercer.studies.report.page import render

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium"),
]

SCRIPT = "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    rng = np.random.default_rng(0)
    a = rng.normal(size=120)
    frame = pd.DataFrame({f"a{SCRIPT}": a, "b": np.where(rng.random(120) < 0.5, SCRIPT, "plain")})
    frame[f"t{SCRIPT}"] = np.where(a + 0.5 * rng.normal(size=120) > 0, SCRIPT, "&lt;script&gt;")
    path = tmp_path_factory.mktemp("page") / "report.html"
    studied = study(frame, f"t{SCRIPT}", n_folds=2, kernel=["linear", "rbf"])
    path.write_text(render(studied, source=SCRIPT, command=SCRIPT), encoding="utf-8")
    return path


def browse(page, *options):
    """Return what Chromium writes to stdout and stderr when it opens the page."""
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0", *options]
    profile = f"--user-data-dir={page.parent / 'profile'}"
    return subprocess.run([*command, profile, page.as_uri()], capture_output=True, text=True, timeout=120, check=False)


def requests_of_pages(log):
    """Return the lines of Chromium's record of its network that are requests of a page that was opened from a file."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if "site=file://" in line and '"url":"http' in line]


def test_nothing_of_a_table_runs_and_nothing_is_asked_for(page, tmp_path):
    log = tmp_path / "net.json"
    dumped = browse(page, "--dump-dom", f"--log-net-log={log}")
    assert "<h1>Predicting" in dumped.stdout
    assert "<title>run" not in dumped.stdout
    assert "CONSOLE" not in dumped.stderr
    assert requests_of_pages(log) == []


def test_the_browser_would_show_a_script_and_a_request(tmp_path):
    page, log = tmp_path / "page.html", tmp_path / "net.json"
    page.write_text(f"<h1>Predicting</h1>{SCRIPT}<img src='http://localhost:9/a.png'><script>nothing()</script>")
    dumped = browse(page, "--dump-dom", f"--log-net-log={log}")
    assert "<title>run" in dumped.stdout
    assert "CONSOLE" in dumped.stderr
    assert requests_of_pages(log)


@pytest.mark.parametrize("options", [["--window-size=360,800"], ["--window-size=1200,900"]], ids=["narrow", "wide"])
def test_the_page_can_be_shown_and_printed(page, tmp_path, options):
    picture, printed = tmp_path / "page.png", tmp_path / "page.pdf"
    assert "CONSOLE" not in browse(page, f"--screenshot={picture}", *options).stderr
    assert picture.stat().st_size > 10_000
    assert "CONSOLE" not in browse(page, f"--print-to-pdf={printed}", *options).stderr
    assert printed.read_bytes().startswith(b"%PDF")
