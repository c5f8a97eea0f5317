"""Values of SQL: one by one, and column by column."""
