"""Events as columns: values with nulls, instances of symbols, rows in the order of a partition."""
