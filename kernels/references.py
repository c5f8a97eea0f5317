"""What each kernel of the registry computes, in plain Python: the others are tested against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from kernels.chains import reference as chains_reference
from kernels.chopconnect import reference as chopconnect_reference
from kernels.compact import reference as compact_reference
from kernels.fenwick import reference as fenwick_reference
from kernels.folds import reference as folds_reference
from kernels.funnels import reference as funnels_reference
from kernels.joins import reference as joins_reference
from kernels.kept import reference as kept_reference
from kernels.latest import reference as latest_reference
from kernels.marks import reference as marks_reference
from kernels.orders import reference as orders_reference
from kernels.pairing import reference as pairing_reference
from kernels.panes import reference as panes_reference
from kernels.predicates import reference as predicates_reference
from kernels.prefixes import reference as aseq_reference
from kernels.product import reference as product_reference
from kernels.records import reference as records_reference
from kernels.reversible import reference as reversible_reference
from kernels.rowconditions import reference as rowconditions_reference
from kernels.rowpattern import reference as rowpattern_reference
from kernels.rows import reference as rows_reference
from kernels.runs import reference as runs_reference
from kernels.situations import reference as situations_reference
from kernels.stacks import reference as stacks_reference
from kernels.starts import reference as starts_reference
from kernels.texts import reference as texts_reference
from kernels.walk import reference as walk_reference
from kernels.windows import reference as windows_reference

REFERENCES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "product": product_reference.slide_product,
        "panes": panes_reference.slide_panes,
        "reversible": reversible_reference.slide_reversible,
        "runs": runs_reference.count_runs,
        "aseq": aseq_reference.count_prefixes,
        "count_compared": fenwick_reference.count_compared,
        "advance_reversible": kept_reference.advance_reversible,
        "advance_prefixes": kept_reference.advance_prefixes,
        "advance_stacks": stacks_reference.advance_stacks,
        "starts": starts_reference.count_starts,
        "chopconnect": chopconnect_reference.connect,
        "count_pairs": joins_reference.count_pairs,
        "fill_pairs": joins_reference.fill_pairs,
        "probe": joins_reference.probe,
        "latest_starts": joins_reference.latest_starts,
        "places_from": joins_reference.places_from,
        "match_codes": joins_reference.match_codes,
        "search_rows": rowpattern_reference.search_rows,
        "search_asking": rowconditions_reference.search_asking,
        "running_totals": rowpattern_reference.running_totals,
        "group_rows": joins_reference.group_rows,
        "mark_rows": marks_reference.mark_rows,
        "walk_rows": walk_reference.walk_rows,
        "count_chains": chains_reference.count_chains,
        "fill_chains": chains_reference.fill_chains,
        "spread": folds_reference.spread,
        "cut_panes": folds_reference.cut_panes,
        "fold_panes": folds_reference.fold_panes,
        "window_ranges": folds_reference.window_ranges,
        "range_extremes": folds_reference.range_extremes,
        "range_distinct": folds_reference.range_distinct,
        "rounded_sums": folds_reference.rounded_sums,
        "select_latest": latest_reference.select_latest,
        "follow_funnels": funnels_reference.follow_funnels,
        "read_in_turn": funnels_reference.read_in_turn,
        "derive_runs": situations_reference.derive_runs,
        "find_matches": situations_reference.find_matches,
        "relation_codes": situations_reference.relation_codes,
        "related_pairs": situations_reference.related_pairs,
        "select_matches": situations_reference.select_matches,
        "count_relations": situations_reference.count_relations,
        "list_matches": compact_reference.list_matches,
        "sort_places": rows_reference.sort_places,
        "sort_ties": rows_reference.sort_ties,
        "add_lengths": rows_reference.add_lengths,
        "put_texts": rows_reference.put_texts,
        "add_digits": rows_reference.add_digits,
        "put_digits": rows_reference.put_digits,
        "number_pairs": orders_reference.number_pairs,
        "sort_by_code": orders_reference.sort_by_code,
        "cut_order": orders_reference.cut_order,
        "find_blocks": orders_reference.find_blocks,
        "partner_ranges": pairing_reference.partner_ranges,
        "find_intervals": predicates_reference.find_intervals,
        "join_sets": predicates_reference.join_sets,
        "rows_in_sets": predicates_reference.rows_in_sets,
        "and_words": predicates_reference.and_words,
        "number_texts": texts_reference.number_texts,
        "most_of_letters": windows_reference.most_of_letters,
        "boundaries": windows_reference.boundaries,
        "read_records": records_reference.read_records,
        "take_bytes": records_reference.take_bytes,
    }
)
