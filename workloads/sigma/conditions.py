"""The conditions of Sigma rules as conditions on one event: a backend of pySigma.

Sigma compares texts without regard to case, and numbers by their digits whatever the type of the
column is. So each field is read as a text, in lower case unless the rule says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

from sigma.conditions import (
    ConditionAND,
    ConditionFieldEqualsValueExpression,
    ConditionNOT,
    ConditionOR,
    ConditionValueExpression,
)
from sigma.conversion.base import Backend
from sigma.conversion.state import ConversionState
from sigma.exceptions import SigmaFeatureNotSupportedByBackendError
from sigma.modifiers import SigmaWideModifier, modifier_mapping
from sigma.processing.pipeline import ProcessingPipeline
from sigma.rule import SigmaRule
from sigma.types import (
    CompareOperators,
    Placeholder,
    SigmaCasedString,
    SigmaCIDRExpression,
    SigmaNumber,
    SigmaRegularExpressionFlag,
    SigmaString,
    SpecialChars,
)

from workloads import expressions as ex
from workloads.texts import lower

ALIAS = "event"
modifier_mapping.setdefault("utf16le", SigmaWideModifier)  # what the specification calls it too

_COMPARISONS: dict[CompareOperators, ex.ComparisonOperator] = {
    CompareOperators.LT: "<",
    CompareOperators.LTE: "<=",
    CompareOperators.GT: ">",
    CompareOperators.GTE: ">=",
}
_FLAGS = {
    SigmaRegularExpressionFlag.IGNORECASE: "i",
    SigmaRegularExpressionFlag.MULTILINE: "m",
    SigmaRegularExpressionFlag.DOTALL: "s",
}
_OF_FIELD: dict[tuple[bool, bool], ex.TextOperator] = {
    (True, True): "CONTAINS",
    (True, False): "STARTS WITH",
    (False, True): "ENDS WITH",
}


class KeywordsError(SigmaFeatureNotSupportedByBackendError):
    """A value without a field, and no columns to search for it in."""


class ConditionBackend(Backend):
    """Gives a condition on the component `event` for each condition of a rule.

    `fields` has the columns of fields whose name differs; `keywords` are the columns in which
    values without a field are searched for.
    """

    name: ClassVar[str] = "Sheaf"
    formats: ClassVar[dict[str, str]] = {"default": "conditions"}
    requires_pipeline: ClassVar[bool] = False
    convert_or_as_in: ClassVar[bool] = False
    convert_and_as_in: ClassVar[bool] = False
    explicit_not_exists_expression: ClassVar[bool] = True

    def __init__(
        self,
        fields: Mapping[str, str],
        keywords: Sequence[str],
        pipeline: ProcessingPipeline | None = None,
    ) -> None:
        super().__init__(pipeline)
        self._fields, self._keywords = fields, keywords
        self.init_processing_pipeline()

    def conditions(self, rule: SigmaRule) -> list[ex.Expression]:
        """The conditions of a rule, any of which is enough; raises `SigmaError`."""
        self.last_processing_pipeline.apply(rule)
        found = [
            self.convert_condition(condition.parsed, ConversionState())
            for condition in rule.detection.parsed_condition
        ]
        return [condition for condition in found if condition is not None]

    def look_in(self, columns: Sequence[str]) -> None:
        """Search for values without a field in these columns."""
        self._keywords = columns

    def column(self, field: str) -> str:
        """The column that holds a field."""
        return self._fields.get(field, field)

    # --- connectives ------------------------------------------------------------------------------

    def convert_condition_or(self, cond: ConditionOR, state: ConversionState) -> Any:
        return _joined("OR", [self.convert_condition(a, state) for a in cond.args])

    def convert_condition_and(self, cond: ConditionAND, state: ConversionState) -> Any:
        return _joined("AND", [self.convert_condition(a, state) for a in cond.args])

    def convert_condition_not(self, cond: ConditionNOT, state: ConversionState) -> Any:
        return ex.Not(self.convert_condition(cond.args[0], state))

    def convert_condition_as_in_expression(self, cond: Any, state: ConversionState) -> Any:
        raise AssertionError("lists are put together by `_joined`")

    # --- values of a field ------------------------------------------------------------------------

    def convert_condition_field_eq_val_str(
        self, cond: ConditionFieldEqualsValueExpression, state: ConversionState
    ) -> Any:
        assert isinstance(cond.value, SigmaString)
        return _text_condition(self._text(cond.field), cond.value, cased=False)

    def convert_condition_field_eq_val_str_case_sensitive(
        self, cond: ConditionFieldEqualsValueExpression, state: ConversionState
    ) -> Any:
        assert isinstance(cond.value, SigmaCasedString)
        return _text_condition(self._text(cond.field), cond.value, cased=True)

    def convert_condition_field_eq_val_num(
        self, cond: ConditionFieldEqualsValueExpression, state: ConversionState
    ) -> Any:
        assert isinstance(cond.value, SigmaNumber)
        number = cond.value.number
        if isinstance(number, float):
            return ex.Comparison("=", self._number(cond.field), ex.Literal(number))
        return ex.Comparison("=", self._text(cond.field), ex.Literal(str(number)))

    def convert_condition_field_eq_val_bool(
        self, cond: ConditionFieldEqualsValueExpression, state: ConversionState
    ) -> Any:
        word = "true" if cond.value else "false"
        return ex.Comparison("=", _lower(self._text(cond.field)), ex.Literal(word))

    def convert_condition_field_eq_val_re(
        self, cond: ConditionFieldEqualsValueExpression, state: ConversionState
    ) -> Any:
        return ex.TextTest("MATCHES", self._text(cond.field), (ex.Literal(_regex(cond.value)),))

    def convert_condition_field_eq_val_cidr(
        self, cond: ConditionFieldEqualsValueExpression, state: ConversionState
    ) -> Any:
        assert isinstance(cond.value, SigmaCIDRExpression)
        network = str(cond.value.network)
        return ex.TextTest("IN CIDR", self._text(cond.field), (ex.Literal(network),))

    def convert_condition_field_compare_op_val(
        self, cond: ConditionFieldEqualsValueExpression, state: ConversionState
    ) -> Any:
        compared: Any = cond.value
        number = ex.Literal(compared.number.number)
        if compared.op is CompareOperators.NEQ:
            return ex.Not(ex.Comparison("=", self._number(cond.field), number))
        operator = _COMPARISONS[compared.op]
        return ex.Comparison(operator, self._number(cond.field), number)

    def convert_condition_field_eq_field(
        self, cond: ConditionFieldEqualsValueExpression, state: ConversionState
    ) -> Any:
        other: Any = cond.value
        left, right = _lower(self._text(cond.field)), _lower(self._text(other.field))
        operator = _OF_FIELD.get((other.starts_with, other.ends_with))
        if operator is None:
            return ex.Comparison("=", left, right)
        return ex.TextTest(operator, left, (right,))

    def convert_condition_field_eq_val_null(
        self, cond: ConditionFieldEqualsValueExpression, state: ConversionState
    ) -> Any:
        return ex.IsNull(self._attribute(cond.field))

    def convert_condition_field_exists(
        self, cond: ConditionFieldEqualsValueExpression, state: ConversionState
    ) -> Any:
        return ex.IsNull(self._attribute(cond.field), negated=True)

    def convert_condition_field_not_exists(
        self, cond: ConditionFieldEqualsValueExpression, state: ConversionState
    ) -> Any:
        return ex.IsNull(self._attribute(cond.field))

    def convert_condition_field_eq_val_timestamp_part(self, cond: Any, state: Any) -> Any:
        _unsupported("parts of a time (minute, hour, day …) are not taken apart")

    def convert_condition_field_eq_query_expr(self, cond: Any, state: Any) -> Any:
        _unsupported("a query in another system's language is not taken")

    # --- values without a field -------------------------------------------------------------------

    def convert_condition_val_str(
        self, cond: ConditionValueExpression, state: ConversionState
    ) -> Any:
        value: Any = cond.value
        if not value.startswith(SpecialChars.WILDCARD_MULTI):
            value = SpecialChars.WILDCARD_MULTI + value
        if not value.endswith(SpecialChars.WILDCARD_MULTI):
            value = value + SpecialChars.WILDCARD_MULTI
        cased = isinstance(cond.value, SigmaCasedString)
        return self._anywhere(lambda text: _text_condition(text, value, cased))

    def convert_condition_val_num(
        self, cond: ConditionValueExpression, state: ConversionState
    ) -> Any:
        digits = ex.Literal(str(cond.value))
        return self._anywhere(lambda text: ex.TextTest("CONTAINS", text, (digits,)))

    def convert_condition_val_re(
        self, cond: ConditionValueExpression, state: ConversionState
    ) -> Any:
        pattern = ex.Literal(_regex(cond.value))
        return self._anywhere(lambda text: ex.TextTest("MATCHES", text, (pattern,)))

    def convert_condition_query_expr(self, cond: Any, state: Any) -> Any:
        _unsupported("a query in another system's language is not taken")

    def _anywhere(self, test: Callable[[ex.Expression], ex.Expression]) -> ex.Expression:
        if not self._keywords:
            raise KeywordsError(
                "values without a field need to know where to look: list the columns of texts "
                "under 'keywords' in the file of log sources"
            )
        parts = [test(_text(ex.Attribute(ALIAS, name))) for name in self._keywords]
        return _joined("OR", parts)

    # --- fields -----------------------------------------------------------------------------------

    def _attribute(self, field: str) -> ex.Attribute:
        return ex.Attribute(ALIAS, self.column(field))

    def _text(self, field: str) -> ex.Expression:
        return _text(self._attribute(field))

    def _number(self, field: str) -> ex.Expression:
        return ex.Function("number", self._attribute(field))

    # --- correlations are written by `correlations` -----------------------------------------------

    def _no_correlation(self, *given: Any, **named: Any) -> Any:
        raise AssertionError("correlations are not converted by this backend")

    convert_correlation_event_count_rule = _no_correlation
    convert_correlation_value_count_rule = _no_correlation
    convert_correlation_temporal_rule = _no_correlation
    convert_correlation_temporal_ordered_rule = _no_correlation
    convert_correlation_extended_temporal_rule = _no_correlation
    convert_correlation_extended_temporal_ordered_rule = _no_correlation
    convert_correlation_value_sum_rule = _no_correlation
    convert_correlation_value_avg_rule = _no_correlation
    convert_correlation_value_percentile_rule = _no_correlation
    convert_correlation_value_median_rule = _no_correlation


def _unsupported(reason: str) -> NoReturn:
    raise SigmaFeatureNotSupportedByBackendError(reason)


def _text(attribute: ex.Attribute) -> ex.Expression:
    return ex.Function("text", attribute)


def _lower(operand: ex.Expression) -> ex.Expression:
    return ex.Function("lower", operand)


def _text_condition(text: ex.Expression, value: SigmaString, cased: bool) -> ex.Expression:
    """A comparison with a text that may have wildcards."""
    parts = list(value.s)
    for part in parts:
        if isinstance(part, Placeholder):
            _unsupported(
                f"the placeholder %{part.name}% (|expand) has no list of values: it stands for "
                "what differs by site; give it in a processing pipeline (value_placeholders)"
            )
    if not cased:
        text = _lower(text)
        parts = [lower(part) if isinstance(part, str) else part for part in parts]
    starts = bool(parts) and parts[0] is SpecialChars.WILDCARD_MULTI
    ends = len(parts) > 1 and parts[-1] is SpecialChars.WILDCARD_MULTI
    inner = parts[starts : len(parts) - ends]
    if not any(isinstance(part, SpecialChars) for part in inner):
        literal = ex.Literal("".join(map(str, inner)))
        if not starts and not ends:
            return ex.Comparison("=", text, literal)
        if not literal.value:
            return ex.IsNull(text, negated=True)
        operator = _OF_FIELD[ends, starts]
        return ex.TextTest(operator, text, (literal,))
    if any(isinstance(part, str) and ("%" in part or "_" in part) for part in parts):
        return ex.TextTest("MATCHES", text, (ex.Literal(_wildcards_as_regex(parts)),))
    like = "".join(
        part if isinstance(part, str) else "%" if part is SpecialChars.WILDCARD_MULTI else "_"
        for part in parts
    )
    return ex.TextTest("LIKE", text, (ex.Literal(like),))


def _wildcards_as_regex(parts: Sequence[Any]) -> str:
    pieces = [
        re.escape(part)
        if isinstance(part, str)
        else ".*"
        if part is SpecialChars.WILDCARD_MULTI
        else "."
        for part in parts
    ]
    return rf"(?s)\A{''.join(pieces)}\z"


def _regex(value: Any) -> str:
    flags = "".join(sorted(_FLAGS[flag] for flag in value.flags if flag in _FLAGS))
    pattern = _ESCAPES.sub(_escape, value.regexp.to_plain(regex=True))
    return f"(?{flags}){pattern}" if flags else pattern


# What Python's expressions have, and RE2 calls otherwise: the end of a text, and characters.
_ESCAPES = re.compile(r"\\(Z|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)


def _escape(found: re.Match[str]) -> str:
    code = found.group(1)
    if code == "Z":
        return r"\z"
    return rf"\x{{{code[1:]}}}" if len(code) > 1 else found.group()


def _joined(operator: Any, parts: Sequence[ex.Expression | None]) -> ex.Expression:
    """Parts under one connective; under OR tests of one text by the same word are one of a list.

    Under AND they stay apart: of a field that is a list another value may meet each.
    """
    given: list[ex.Expression] = []
    for part in parts:
        if isinstance(part, ex.Logical) and part.operator == operator:
            given += part.parts
        elif part is not None:
            given.append(part)
    found = tuple(dict.fromkeys(given)) if operator == "AND" else _with_lists(given)
    return found[0] if len(found) == 1 else ex.Logical(operator, found)


def _with_lists(given: Sequence[ex.Expression]) -> tuple[ex.Expression, ...]:
    lists: dict[Any, list[ex.Literal]] = {}
    for part in given:
        key, values = _listed(part)
        lists.setdefault(key, []).extend(values)
    return tuple(_from_list(key, list(dict.fromkeys(values))) for key, values in lists.items())


def _listed(part: ex.Expression) -> tuple[Any, list[ex.Literal]]:
    """Under what tests can be put together, and what they compare with; a part alone else."""
    match part:
        case ex.Comparison("=", operand, ex.Literal(str()) as literal):
            return ("=", operand), [literal]
        case ex.Membership(operand, values, False):
            return ("=", operand), list(values)
        case ex.TextTest(test, operand, patterns, every, False) if (
            len(patterns) == 1 or not every
        ) and all(isinstance(p, ex.Literal) for p in patterns):
            return (test, operand), [p for p in patterns if isinstance(p, ex.Literal)]
        case _:
            return part, []


def _from_list(key: Any, values: list[ex.Literal]) -> ex.Expression:
    if not values:
        part: ex.Expression = key
        return part
    test, operand = key
    if test == "=":
        if len(values) == 1:
            return ex.Comparison("=", operand, values[0])
        return ex.Membership(operand, tuple(values))
    return ex.TextTest(test, operand, tuple(values))
