"""The kernels and their backends, each under one name with one signature.

`numba` is compiled for the CPU; `opencl` runs on a device of pyopencl, which it takes as its first
argument. What a kernel computes, in plain Python, is in `kernels.references`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from kernels.chains import cpu as chains
from kernels.chains import opencl as chains_opencl
from kernels.chopconnect import cpu as chopconnect
from kernels.compact import cpu as compact
from kernels.fenwick import cpu as fenwick
from kernels.folds import cpu as folds
from kernels.funnels import cpu as funnels
from kernels.joins import cpu as joins
from kernels.joins import opencl as joins_opencl
from kernels.kept import cpu as kept
from kernels.latest import cpu as latest
from kernels.marks import cpu as marks
from kernels.orders import cpu as orders
from kernels.pairing import cpu as pairing
from kernels.panes import cpu as panes
from kernels.predicates import cpu as predicates
from kernels.prefixes import cpu as aseq
from kernels.product import cpu as product
from kernels.product import opencl as product_opencl
from kernels.records import cpu as records
from kernels.reversible import cpu as reversible
from kernels.reversible import opencl as reversible_opencl
from kernels.rowconditions import cpu as rowconditions
from kernels.rowpattern import cpu as rowpattern
from kernels.rows import cpu as rows
from kernels.runs import cpu as runs
from kernels.situations import cpu as situations
from kernels.situations import opencl as situations_opencl
from kernels.stacks import cpu as stacks
from kernels.starts import cpu as starts
from kernels.texts import cpu as texts
from kernels.walk import cpu as walk
from kernels.windows import cpu as windows

Kernel = Callable[..., Any]

KERNELS: Mapping[str, Mapping[str, Kernel]] = MappingProxyType(
    {
        "product": {"numba": product.slide_product, "opencl": product_opencl.slide_product},
        "panes": {"numba": panes.slide_panes},
        "reversible": {
            "numba": reversible.slide_reversible,
            "opencl": reversible_opencl.slide_reversible,
        },
        "runs": {"numba": runs.count_runs},
        # Also PreTree, whose trees have more than one branch.
        "aseq": {"numba": aseq.count_prefixes},
        "count_compared": {"numba": fenwick.count_compared},
        "advance_reversible": {"numba": kept.advance_reversible},
        "advance_prefixes": {"numba": kept.advance_prefixes},
        "advance_stacks": {"numba": stacks.advance_stacks},
        "starts": {"numba": starts.count_starts},
        "chopconnect": {"numba": chopconnect.connect},
        "count_pairs": {"numba": joins.count_pairs, "opencl": joins_opencl.count_pairs},
        "fill_pairs": {"numba": joins.fill_pairs, "opencl": joins_opencl.fill_pairs},
        "probe": {"numba": joins.probe, "opencl": joins_opencl.probe},
        "latest_starts": {"numba": joins.latest_starts, "opencl": joins_opencl.latest_starts},
        "places_from": {"numba": joins.places_from, "opencl": joins_opencl.places_from},
        "match_codes": {"numba": joins.match_codes},
        "search_rows": {"numba": rowpattern.search_rows},
        "search_asking": {"numba": rowconditions.search_asking},
        "running_totals": {"numba": rowpattern.running_totals},
        "group_rows": {"numba": joins.group_rows},
        "mark_rows": {"numba": marks.mark_rows},
        "walk_rows": {"numba": walk.walk_rows},
        "count_chains": {"numba": chains.count_chains, "opencl": chains_opencl.count_chains},
        "fill_chains": {"numba": chains.fill_chains, "opencl": chains_opencl.fill_chains},
        "spread": {"numba": folds.spread},
        "cut_panes": {"numba": folds.cut_panes},
        "fold_panes": {"numba": folds.fold_panes},
        "window_ranges": {"numba": folds.window_ranges},
        "range_extremes": {"numba": folds.range_extremes},
        "range_distinct": {"numba": folds.range_distinct},
        "rounded_sums": {"numba": folds.rounded_sums},
        "select_latest": {"numba": latest.select_latest},
        "follow_funnels": {"numba": funnels.follow_funnels},
        "read_in_turn": {"numba": funnels.read_in_turn},
        "derive_runs": {"numba": situations.derive_runs, "opencl": situations_opencl.derive_runs},
        "find_matches": {"numba": situations.find_matches},
        "relation_codes": {"numba": situations.relation_codes},
        "related_pairs": {
            "numba": situations.related_pairs,
            "opencl": situations_opencl.related_pairs,
        },
        "select_matches": {"numba": situations.select_matches},
        "count_relations": {"numba": situations.count_relations},
        "list_matches": {"numba": compact.list_matches},
        "sort_places": {"numba": rows.sort_places},
        "sort_ties": {"numba": rows.sort_ties},
        "add_lengths": {"numba": rows.add_lengths},
        "put_texts": {"numba": rows.put_texts},
        "add_digits": {"numba": rows.add_digits},
        "put_digits": {"numba": rows.put_digits},
        "number_pairs": {"numba": orders.number_pairs},
        "sort_by_code": {"numba": orders.sort_by_code},
        "cut_order": {"numba": orders.cut_order},
        "find_blocks": {"numba": orders.find_blocks},
        "partner_ranges": {"numba": pairing.partner_ranges},
        "find_intervals": {"numba": predicates.find_intervals},
        "join_sets": {"numba": predicates.join_sets},
        "rows_in_sets": {"numba": predicates.rows_in_sets},
        "and_words": {"numba": predicates.and_words},
        "number_texts": {"numba": texts.number_texts},
        "most_of_letters": {"numba": windows.most_of_letters},
        "boundaries": {"numba": windows.boundaries},
        "read_records": {"numba": records.read_records},
        "take_bytes": {"numba": records.take_bytes},
    }
)


def kernel(name: str, backend: str, device: Any = None) -> Kernel:
    """A kernel of a backend, on a device where it needs one: all of a name are called alike."""
    found = KERNELS[name][backend]
    return partial(found, device) if backend == "opencl" else found
