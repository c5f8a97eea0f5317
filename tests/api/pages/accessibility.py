"""What of a page keeps people with screen readers and keyboards out, by rules as axe-core's."""

from pathlib import Path

from tests.api.pages.driver import Browser

RULES = Path(__file__).with_suffix(".js").read_text()


def barriers(page: Browser) -> list[str]:
    """What breaks a rule on the page that is open, with the rule's name before it."""
    found: list[str] = page.run(RULES)
    return found
