"""How large the texts of workloads may be; docs/language.md has them under "Limits".

They are far beyond what people write, and below what Python's recursion, its conversion of long
numbers and a planner's memory would fail at.
"""

from __future__ import annotations

MAX_DOCUMENT_CHARACTERS = 32 * 2**20
MAX_DOCUMENT_DEPTH = 20  # lists and maps one inside the other
MAX_DOCUMENT_VALUES = 100_000  # an alias of YAML counts as all that it stands for
MAX_QUERIES = 10_000
MAX_ARCHIVE_FILES = 10_000
MAX_ARCHIVE_BYTES = 32 * 2**20  # of all files, unpacked
MAX_QUERY_CHARACTERS = 1_000_000
MAX_NUMBER_CHARACTERS = 1_000
MAX_EXPONENT = 30  # of the amount of a window or slide, as a power of ten, up or down
MAX_BRACKETS = 50  # one inside the other, in a query
MAX_DEPTH = 200  # operators of a condition or value, one inside the other
MAX_PARTS = 1_000  # of a SEQ, AND or OR
MAX_LISTED = 10_000  # patterns, aggregates, items of RETURN, attributes of a key
MAX_CHAINED = 200  # comparisons in a row: a = b = c
MAX_LIMIT = 1_000_000  # k of LIMIT k
MAX_GROUP = 100  # n of E^n
