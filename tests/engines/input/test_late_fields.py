"""Fields that come up late in a long file of JSON lines are read like others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from api.cli.main import app
from engines.input import text_bytes

PLAIN = """
  QUERY found
  PATTERN ANY e
  WHERE e.late = 'v' OR e.host.inner = 1 OR e."odd name" = TRUE
  RETURN e.n
  WITHIN 1 s
"""
WHOLE = PLAIN.replace("RETURN e.n", "RETURN e")


@pytest.mark.parametrize("query", [PLAIN, WHOLE])
@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_fields_behind_the_lines_that_types_are_guessed_from_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, ending: str
) -> None:
    monkeypatch.setattr(text_bytes, "SAMPLE", 1_000)
    monkeypatch.setattr(text_bytes, "BLOCK", 1_000, raising=False)
    rows: list[dict[str, Any]] = [{"ts": n, "n": n, "host": {"id": "h"}} for n in range(6_000)]
    rows[5_001]["late"] = "v"
    rows[5_002]["host"] = {"id": "h", "inner": 1}
    rows[5_003]["odd name"] = True
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    events, given, out = (tmp_path / name for name in (f"e.{ending}", "w.yaml", "o.jsonl"))
    if ending.endswith("gz"):
        import gzip

        text = gzip.compress(text)
    events.write_bytes(text)
    given.write_text(f"stream: {{time: ts, unit: ms}}\nqueries:\n- |{query}")
    done = CliRunner().invoke(app, ["run", str(given), "--events", str(events), "--out", str(out)])
    assert done.exit_code == 0, done.output
    found = [json.loads(line)["match"]["e"]["n"] for line in out.read_text().splitlines()]
    assert found == [5_001, 5_002, 5_003]
