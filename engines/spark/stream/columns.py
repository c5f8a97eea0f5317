"""The columns in which the tasks of a live stream give each other events and rows."""

from __future__ import annotations

PACKED = "route string, bucket int, latest bigint, events binary"
ACCOUNT = ""  # the route of what is told about the events
STATE = "bucket"  # the name of the state variable
OUTPUT_KINDS = ("aggregates", "matches", "late")  # of rows, each a table in one value
FOUND = "about string, " + ", ".join(f"`{kind}` binary" for kind in OUTPUT_KINDS)
