"""The process that builds an index for the service; it says how far it is, a line of JSON each."""

from __future__ import annotations

import json
import sys
from typing import Any


def main(path: str, on: list[str]) -> int:
    """Build it; gives the exit code, and says at the end what came of it."""
    from engines.access.build_index import build_indexes, indexed_document
    from workloads.errors import SheafError

    def say(message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    try:
        found = build_indexes(path, on, lambda part: say({"progress": round(part, 4)}))
    except SheafError as error:
        say({"reason": str(error)})
        return 1
    say({"files": [indexed_document(each) for each in found]})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
