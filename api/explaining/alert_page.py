"""A backtest as a page: a table of rules, the noisiest first, each with a chart of its days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

MOST_DAYS = 366  # that are drawn, the last ones
_BAR, _GAP = 6, 1  # pixels
_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2rem; color: #1d2430; background: #fff; }
h1 { font-size: 1.3rem; } p { max-width: 60rem; }
table { border-collapse: collapse; } th { text-align: left; font-weight: 600; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #dde1e8; vertical-align: bottom; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.muted { color: #5c6675; } svg { display: block; } rect { fill: #3566b8; }
"""


def alert_page(found: Mapping[str, Any], top: int) -> str:
    """HTML that needs nothing else, of what `backtest` found."""
    return "\n".join(_lines(found, top)) + "\n"


def _lines(found: Mapping[str, Any], top: int) -> Iterator[str]:
    name, rules, days = escape(found["workload"]), found["rules"], found["days"][-MOST_DAYS:]
    loud = [rule for rule in rules if rule["alerts"]]
    yield '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">'
    yield f"<title>{name}: alerts by rule and day</title>\n<style>{_STYLE}</style>"
    yield f"<h1>{name}: alerts by rule and day</h1>"
    yield (
        f"<p>{found['alerts']:,} alerts of {len(loud):,} of {len(rules):,} rules over "
        f"{found['events']:,} events, on {len(found['days']):,} days.</p>"
    )
    if not loud:
        return
    total: Counter[str] = Counter()
    for rule in loud:
        total.update(rule["by_day"])
    yield f"<p>A bar for each day with alerts, {days[0]} to {days[-1]}; of all rules:</p>"
    yield _chart(total, days, 80, "all rules")
    yield "<table>\n<thead><tr><th>alerts</th><th>by day</th><th>rule</th><th>level</th>"
    yield "<th>most</th></tr></thead>\n<tbody>"
    for rule in loud[:top]:
        yield from _row(rule, days)
    yield "</tbody></table>"
    if len(loud) > top:
        yield f'<p class="muted">{len(loud) - top:,} more with alerts.</p>'


def _row(rule: Mapping[str, Any], days: Sequence[str]) -> Iterator[str]:
    most = max(rule["by_day"].values())
    busiest = next(day for day, number in rule["by_day"].items() if number == most)
    query = str(rule["query"])
    named = escape(str(rule["title"] or query))
    below = f'<br><span class="muted">{escape(query)}</span>' if rule["title"] else ""
    yield f'<tr><td class="number">{rule["alerts"]:,}</td>'
    yield f"<td>{_chart(rule['by_day'], days, 28, query)}</td>"
    yield f"<td>{named}{below}</td><td>{escape(str(rule['level'] or ''))}</td>"
    yield f"<td>{busiest}: {most:,}</td></tr>"


def _chart(by_day: Mapping[str, int], days: Sequence[str], height: int, about: str) -> str:
    """A bar for each day, by the most of any of them; where the pointer is, the day and number."""
    most = max(by_day.values())
    width = len(days) * (_BAR + _GAP)
    bars = []
    for place, day in enumerate(days):
        if not (number := by_day.get(day, 0)):
            continue
        tall = max(1.0, height * number / most)
        bars.append(
            f'<rect x="{place * (_BAR + _GAP)}" y="{height - tall:.1f}" width="{_BAR}" '
            f'height="{tall:.1f}"><title>{day}: {number:,}</title></rect>'
        )
    label = escape(f"alerts by day, {about}", quote=True)
    inside = "".join(bars)
    return f'<svg role="img" aria-label="{label}" width="{width}" height="{height}">{inside}</svg>'
