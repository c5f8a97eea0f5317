"""The functions of SQL that are taken, and those that go by two names."""

from __future__ import annotations

AGGREGATES = (
    *("COUNT", "SUM", "AVG", "MIN", "MAX", "ARRAY_AGG", "STDDEV", "STDDEV_SAMP", "STDDEV_POP"),
    *("VARIANCE", "VAR_SAMP", "VAR_POP", "BOOL_AND", "BOOL_OR", "ARBITRARY", "ANY_VALUE"),
    *("MAX_BY", "MIN_BY", "COUNT_IF", "LIST", "STRING_AGG", "LISTAGG"),
)
FUNCTIONS = (
    *("ABS", "ROUND", "FLOOR", "CEIL", "CEILING", "SIGN", "SQRT", "POWER", "POW", "MOD"),
    *("COALESCE", "NULLIF", "GREATEST", "LEAST", "IF"),
    *("LOWER", "UPPER", "LENGTH", "CHAR_LENGTH", "CONCAT", "SUBSTRING", "SUBSTR", "TRIM"),
)
NAVIGATION = ("FIRST", "LAST", "PREV", "NEXT")
SAME = {"ARG_MAX": "MAX_BY", "ARG_MIN": "MIN_BY", "EVERY": "BOOL_AND", "VARIANCE_SAMP": "VAR_SAMP"}
KEEPS_NULLS = ("ARRAY_AGG", "LIST")  # aggregates to which a null is a value
