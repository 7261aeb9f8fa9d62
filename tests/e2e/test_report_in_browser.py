"""Tests how the page looks in a browser: wide and narrow, light, dark and in print."""

import pytest
import synthetic_journal as synthetic
from test_report import report

SECTIONS = [
    *("Results", "How fast?", "What does accuracy cost?", "Where does the time go?"),
    *("Where does the GPU wait?", "What happens when?", "Is it the same?"),
    *("What is computed in vain?", "How strongly may words be boosted?"),
    *("Which blank penalty balances deletions and insertions?", "How many frames may be skipped?"),
    *("Are boosted words recognised?", "What differs?"),
    *("Failures", "What changed?", "Since when?", "Provenance"),
]

# Finds elements outside drawings that reach beyond the window, and counts the drawings that are shown.
LAYOUT = """() => {
  const shown = (e) => e.getClientRects().length > 0;
  const beyond = [...document.body.querySelectorAll("*")].filter(
    (e) => !e.closest("svg") && shown(e) && e.getBoundingClientRect().right > innerWidth + 0.5);
  return {
    scrolls: document.documentElement.scrollWidth > innerWidth,
    beyond: beyond.map((e) => e.tagName + " " + e.textContent.trim().slice(0, 40)),
    headings: [...document.querySelectorAll("h2")].filter(shown).map((e) => e.textContent),
    wide: [...document.querySelectorAll(".wide svg")].filter(shown).length,
    narrow: [...document.querySelectorAll(".narrow svg")].filter(shown).length,
    navigation: shown(document.querySelector("nav") ?? document.body),
    back: getComputedStyle(document.body).backgroundColor,
  };
}"""

# Finds texts whose contrast with their background is below 4.5, the least that WCAG 2.2 allows for small text.
FAINT = """() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => [r, g, b]
    .map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const e of document.body.querySelectorAll("*")) {
    const own = [...e.childNodes].some((n) => n.nodeType == 3 && n.textContent.trim());
    if (!own || e.closest("svg") || !e.getClientRects().length) continue;
    const pair = [luminance(parse(getComputedStyle(e).color)), luminance(behind(e))];
    const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    if (contrast < 4.5) faint.push(e.textContent.trim().slice(0, 40) + " " + contrast.toFixed(2));
  }
  return faint;
}"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    run, before, history = synthetic.everything(tmp_path_factory.mktemp("everything"))
    result = report(run, "--baseline", before, "--history", history)
    assert result.returncode == 0, result.stderr
    return run / "report.html"


@pytest.fixture
def look(browser):
    """look(file, width) opens a page. Its `faults` are errors, warnings and requests."""
    contexts = []

    def run(file, width, **settings):
        size = {"width": width, "height": 800}
        context = browser.new_context(viewport=size, **settings)
        contexts.append(context)
        page = context.new_page()
        page.faults = []
        page.on("console", lambda message: page.faults.append(message.text))
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("request", lambda request: page.faults.append(request.url))
        page.goto(file.as_uri(), wait_until="load")
        assert page.faults.pop(0) == file.as_uri()  # the request for the page itself
        return page

    yield run
    for context in contexts:
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 700, 390])
def test_page(look, page_file, width, scheme):
    page = look(page_file, width, color_scheme=scheme)
    layout = page.evaluate(LAYOUT)
    assert page.faults == []
    assert not layout["scrolls"] and layout["beyond"] == []
    assert layout["headings"] == SECTIONS
    drawings = page.locator("figure").count()
    assert drawings == 11
    assert (layout["wide"], layout["narrow"]) == ((drawings, 0) if width > 640 else (0, drawings))
    assert (layout["back"] == "rgb(253, 253, 252)") == (scheme == "light")
    assert page.evaluate(FAINT) == []


def test_print(look, page_file):
    """The printed page has dark ink on white, wide drawings, and no navigation."""
    page = look(page_file, 690, color_scheme="dark")  # A4 without its margins
    page.emulate_media(media="print")
    layout = page.evaluate(LAYOUT)
    assert layout["back"] == "rgb(255, 255, 255)" and page.evaluate(FAINT) == []
    assert not layout["scrolls"] and layout["beyond"] == []
    assert layout["wide"] == 11 and layout["narrow"] == 0 and not layout["navigation"]
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_links_lead_to_their_sections(look, page_file):
    page = look(page_file, 390)
    for link in page.locator("nav a").all():
        link.click()
        top = page.locator(link.get_attribute("href")).bounding_box()["y"]
        bottom = page.evaluate("scrollY + innerHeight >= document.documentElement.scrollHeight - 1")
        assert abs(top) < 2 or bottom


def test_faults_are_seen(look, tmp_path):
    """The tests above would find a script error, a request, an element that is too wide, and text that is too faint."""
    file = tmp_path / "bad.html"
    file.write_text(
        '<body><p style="color: #bbb; background: #fff">faint</p>'
        '<div style="width: 500px">wide</div><img src="http://127.0.0.1:9/a.png" alt="">'
        "<script>nothing()</script></body>"
    )
    page = look(file, 390)
    layout = page.evaluate(LAYOUT)
    assert layout["scrolls"] and layout["beyond"] == ["DIV wide"]
    assert page.evaluate(FAINT) == ["faint 1.92"]
    assert any("nothing is not defined" in fault for fault in page.faults)
    assert "http://127.0.0.1:9/a.png" in page.faults
