"""What holds for every page: phones, both themes, names of controls, signing in."""

from pathlib import Path

import httpx
import pytest

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.middleware.tokens import read_tokens
from api.http.settings import Settings
from tests.api.pages.driver import Browser
from tests.api.service import at_work, finished, posted_job, posted_plan

pytestmark = pytest.mark.slow

DESK, PHONE = (1280, 900), (375, 812)


@pytest.mark.parametrize(("theme", "size"), [("light", DESK), ("dark", PHONE)])
def test_pages_keep_nobody_out_and_fit(
    page: Browser,
    address: str,
    client: httpx.Client,
    tmp_path: Path,
    theme: str,
    size: tuple[int, int],
) -> None:
    (tmp_path / "events.csv").write_text("ts,kind,user\n1,Login,a\n2,Payment,a\n3,Login,b\n")
    job = posted_job(client, "fine")
    finished(client, job["id"])
    plan = job["plan"]
    other = client.post(f"/v1/workloads/{job['workload']}/plans", json={"sharing": False}).json()
    page.size(*size)
    page.prefer(theme)
    for path, complete in (
        ("/", "main"),
        (f"/data?path={tmp_path}/events.csv", "#columns tbody tr"),
        ("/workloads/new?from=shop", "#verdict.good"),
        (f"/workloads/{job['workload']}", "#verdict.good"),
        ("/plans", "main"),
        (f"/plans/{plan}", "#operators details"),
        (f"/compare?a={plan}&b={other['id']}", "#differences p:not(.loading)"),
        (f"/jobs/new?plan={plan}", "main"),
        ("/jobs", "main"),
        (f"/jobs/{job['id']}", "#over-time svg text"),
        ("/docs", "main"),
        ("/glossary", "main"),
        ("/no/such", "main"),
    ):
        page.open(address + path)
        page.until(lambda wanted=complete: page.count(wanted), complete)
        assert page.barriers() == [], path
        has, may = page.run("return [document.documentElement.scrollWidth, innerWidth]")
        assert has <= may, path
    assert any("404" in complaint for complaint in page.complaints())  # of the page that is not


def test_what_keeps_people_out_is_found(page: Browser, address: str) -> None:
    page.open(f"{address}/glossary")
    page.run(
        "document.title = ''; document.querySelector('main').innerHTML = arguments[0];",
        '<h1>h</h1><a href="/"></a><img><input><p id="pale">text</p>',
    )
    page.run(
        "Object.assign(document.querySelector('#pale').style,"
        " {color: '#999', backgroundColor: '#aaa'})"
    )
    broken = {found.partition(":")[0] for found in page.barriers()}
    assert broken >= {"document-title", "link-name", "image-alt", "label", "color-contrast"}


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
        data=tmp_path / "own",
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
        assert page.barriers() == []
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
