"""Tables as bytes: large ones are compressed, and all are read back as they were."""

import pyarrow as pa
import pytest

from engines.live import state_bytes
from engines.spark.stream.source import bytes_table, table_bytes


@pytest.mark.parametrize("large", [1, 1 << 30])
def test_tables_are_read_back_whether_or_not_they_are_compressed(
    large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_bytes, "LARGE_BYTES", large)
    table = pa.table({"x": range(1_000), "text": ["a command line"] * 1_000})
    content = table_bytes(table.slice(10, 900))
    assert bytes_table(content).equals(table.slice(10, 900))
    assert (len(content) < 10_000) == (large == 1)
    blob, sizes = state_bytes.to_bytes({"a": table, "b": table.slice(0, 0)}, {"n": 1})
    tables, about = state_bytes.from_bytes(blob)
    assert (tables["a"].equals(table), tables["b"].num_rows, about) == (True, 0, {"n": 1})
    assert sum(sizes.values()) < len(blob)
