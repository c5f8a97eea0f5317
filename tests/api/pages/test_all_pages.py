"""What holds for every page: phones, both themes, names of controls, signing in."""

import re
from pathlib import Path

import httpx
import pytest

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.middleware.tokens import read_tokens
from api.http.settings import Settings
from tests.api.pages.accessibility import RULES, barriers
from tests.api.pages.driver import Browser
from tests.api.service import at_work, finished, posted_job, posted_plan

pytestmark = pytest.mark.slow

PHONE = (375, 812)


def test_pages_fit_a_phone_in_both_themes(
    page: Browser, address: str, client: httpx.Client, tmp_path: Path
) -> None:
    (tmp_path / "events.csv").write_text("ts,kind,user\n1,Login,a\n2,Payment,a\n3,Login,b\n")
    job = posted_job(client, "fine")
    finished(client, job["id"])
    plan = job["plan"]
    wide = "return [document.documentElement.scrollWidth, innerWidth]"
    # Of text against what is behind it, by WCAG: 4.5 is enough for small letters.
    contrast = """
      const rgb = (css) => {
        const [c] = [document.createElement('canvas').getContext('2d', {willReadFrequently: true})];
        c.fillStyle = css; c.fillRect(0, 0, 1, 1);
        return [...c.getImageData(0, 0, 1, 1).data];
      };
      const light = (p) => p.slice(0, 3).map((v) => v / 255)
        .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
      const ground = (e) => {
        for (; e; e = e.parentElement) {
          const p = rgb(getComputedStyle(e).backgroundColor);
          if (p[3] === 255) return p;
        }
        return [255, 255, 255, 255];
      };
      const poor = [];
      for (const e of document.querySelectorAll('main *, header *')) {
        if (e.closest('svg, [hidden], :disabled, .hidden') || !e.checkVisibility()) continue;
        if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
        const [a, b] = [light(rgb(getComputedStyle(e).color)), light(ground(e))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) poor.push(`${e.outerHTML.slice(0, 80)} ${ratio}`);
      }
      return poor;
    """
    for theme in ("light", "dark"):
        page.size(*PHONE)
        page.prefer(theme)
        for path, complete in (
            ("/", "main"),
            (f"/data?path={tmp_path}/events.csv", "#columns tbody tr"),
            ("/workloads/new?from=shop", "#verdict.good"),
            (f"/workloads/{job['workload']}", "#verdict.good"),
            ("/plans", "main"),
            (f"/plans/{plan}", "#operators details"),
            (f"/compare?a={plan}&b={plan}", "#differences p:not(.loading)"),
            (f"/jobs/new?plan={plan}", "main"),
            ("/jobs", "main"),
            (f"/jobs/{job['id']}", "#over-time svg text"),
            ("/docs", "main"),
            ("/glossary", "main"),
        ):
            page.open(address + path)
            page.until(lambda wanted=complete: page.count(wanted), complete)
            has, may = page.run(wide)
            assert has <= may, path
            assert page.run(contrast) == [], (theme, path)
            assert theme == "dark" or barriers(page) == [], path


BAD = """
<h1>h</h1><h1>h</h1><h4 id="a">x</h4><p id="a"></p><label for="b">y</label>
<input><a href="/"></a><img>
<svg width="9" height="9"></svg>
<table><tr><th>z</th></tr></table><button>b<a href="/">l</a></button>
<p class="scroll" aria-expanded="yes">long text</p><ul><p></p></ul><i tabindex="3"></i><main></main>
"""


def test_each_rule_of_accessibility_can_be_broken(page: Browser, address: str) -> None:
    page.open(f"{address}/glossary")
    assert barriers(page) == []
    page.run(
        "document.title = '';"
        "document.querySelector('main').innerHTML = arguments[0];"
        "Object.assign(document.querySelector('.scroll').style, "
        "{overflow: 'auto', width: '5px', height: '5px'})",
        BAD,
    )
    broken = {found.partition(":")[0] for found in barriers(page)}
    assert broken == set(re.findall(r"^  '([\w-]+)': ", RULES, re.MULTILINE))


def test_the_theme_can_be_chosen_and_stays(page: Browser, address: str) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    page.open(f"{address}/")
    light = page.run(ground)
    page.click("#theme")
    dark = page.run(ground)
    assert dark != light
    page.open(f"{address}/jobs")
    assert page.run(ground) == dark
    page.click("#theme")
    assert page.run(ground) == light
    page.run("localStorage.clear()")
    page.prefer("dark")
    page.open(f"{address}/")
    assert page.run(ground) == dark


def test_every_control_has_a_name_and_can_be_reached(
    page: Browser, address: str, client: httpx.Client
) -> None:
    plan = posted_plan(client)["id"]
    nameless = """
      return [...document.querySelectorAll('a, button, input:not([type=hidden]), select, textarea')]
        .filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length || e.title))
        .map((e) => e.outerHTML)
    """
    for path in ("/", "/workloads/new", f"/plans/{plan}", f"/jobs/new?plan={plan}", "/docs"):
        page.open(address + path)
        assert page.run(nameless) == [], path
        page.press("Tab")
        assert page.run("return document.activeElement.className") == "skip", path
        page.press("Enter")
        assert page.address.endswith("#main")


def test_signing_in_leads_to_the_page_that_was_asked_for(
    page: Browser, pretend: list[str], tmp_path: Path
) -> None:
    secret = "a-secret-of-runners"
    settings = Settings(
        tmp_path / "own",
        roots=(tmp_path, Path.cwd()),
        tokens=read_tokens([f"ann run {secret}"], "here"),
    )
    headers = {"authorization": f"Bearer {secret}"}
    with (
        serving(create_app(settings, pretend)) as address,
        httpx.Client(base_url=address, headers=headers, timeout=60) as client,
    ):
        id = posted_job(client, "waits")["id"]
        at_work(client, id)
        page.open(f"{address}/jobs/{id}")
        page.fill("[name=token]", "wrong")
        page.click("main button[type=submit]")
        page.reads("main .alert", "No token of this service")
        page.fill("[name=token]", secret)
        page.click("main button[type=submit]")
        page.until(lambda: page.address == f"{address}/jobs/{id}")
        page.reads("#part", "1 of 4 tasks")  # as the service sends it, with the cookie alone
        assert "ann" in page.text(".who")
        assert page.run("return document.cookie") == ""
        (cookie,) = page.cookies()
        assert cookie["httpOnly"]
        page.click("#cancel")
        page.reads("#status", "cancelled")
        page.click(".who form button")
        page.until(lambda: page.count("[name=token]"))
        assert page.cookies() == []
        page.open("about:blank")
    assert [c for c in page.complaints() if "401" not in c] == []
