"""What results in a folder take the place of: earlier results, and nothing else."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from api.cli.commands.spark import check_spark_sink
from engines.limits import ResultsError
from engines.results.result_folder import check_replaceable
from engines.results.tables import aggregate_schema, match_schema
from engines.results.writers import write_rows
from engines.spark.batch.targets import FolderTarget


def results(folder: Path, ending: str) -> None:
    for kind, schema in (("aggregates", aggregate_schema), ("matches", match_schema)):
        (folder / kind).mkdir(parents=True)
        none = schema(pa.int64()).empty_table().to_reader()
        write_rows(none, folder / kind / f"part-00000{ending}")


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv", ".jsonl"])
def test_results_and_empty_folders_may_be_replaced(tmp_path: Path, ending: str) -> None:
    check_replaceable(tmp_path / "none")
    check_replaceable(tmp_path)
    results(tmp_path / "found", ending)
    check_replaceable(tmp_path / "found")


def events(folder: Path) -> None:
    """As Spark names the files of a folder."""
    pq.write_table(pa.table({"ts": [1], "kind": ["A"]}), folder / "part-00000.parquet")


def delta(folder: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(folder), pa.table({"ts": [1], "kind": ["A"]}))


def beside_results(folder: Path) -> None:
    (folder / "aggregates").mkdir()
    none = aggregate_schema(pa.int64()).empty_table()
    pq.write_table(none, folder / "aggregates" / "part-00000.parquet")
    (folder / "thesis.tex").write_text("the only copy")


@pytest.mark.parametrize("fill", [events, delta, beside_results])
def test_a_folder_with_anything_else_is_refused_and_kept(
    tmp_path: Path, fill: Callable[[Path], None]
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    fill(folder)
    before = sorted(folder.rglob("*"))
    with pytest.raises(ResultsError, match="would take the place of all that is in it"):
        check_spark_sink(f"{folder}/")
    with (
        pytest.raises(ResultsError, match="is no file of results"),
        FolderTarget(f"{folder}/").landing(),
    ):
        pass
    assert sorted(folder.rglob("*")) == before
    assert sorted(tmp_path.iterdir()) == [folder]
