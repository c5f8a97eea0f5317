"""The functions of SQL that are taken, and those that go by two names."""

from __future__ import annotations

AGGREGATES = (
    *("COUNT", "SUM", "AVG", "MIN", "MAX", "ARRAY_AGG", "STDDEV", "STDDEV_SAMP", "STDDEV_POP"),
    *("VARIANCE", "VAR_SAMP", "VAR_POP", "BOOL_AND", "BOOL_OR", "ARBITRARY", "ANY_VALUE"),
    *("MAX_BY", "MIN_BY", "COUNT_IF", "LIST", "STRING_AGG", "LISTAGG"),
)
FUNCTIONS = (
    *("ABS", "ROUND", "TRUNCATE", "FLOOR", "CEIL", "SIGN", "SQRT", "EXP", "LN", "LOG10", "LOG2"),
    *("POWER", "MOD", "COALESCE", "NULLIF", "GREATEST", "LEAST", "IF", "TRY", "LOWER", "UPPER"),
    *("LENGTH", "REVERSE", "CONCAT", "SUBSTRING", "LEFT", "RIGHT", "TRIM", "LTRIM", "RTRIM"),
    *("LPAD", "RPAD", "REPLACE", "STRPOS", "STARTS_WITH", "ENDS_WITH", "SPLIT_PART"),
    *("CARDINALITY", "ARRAY"),
)
NAVIGATION = ("FIRST", "LAST", "PREV", "NEXT")
SAME = {
    "ARG_MAX": "MAX_BY",
    "ARG_MIN": "MIN_BY",
    "EVERY": "BOOL_AND",
    "VARIANCE_SAMP": "VAR_SAMP",
    "CEILING": "CEIL",
    "POW": "POWER",
    "TRUNC": "TRUNCATE",
    "CHAR_LENGTH": "LENGTH",
    "CHARACTER_LENGTH": "LENGTH",
    "SUBSTR": "SUBSTRING",
    "POSITION": "STRPOS",
}
KEEPS_NULLS = ("ARRAY_AGG", "LIST")  # aggregates to which a null is a value
