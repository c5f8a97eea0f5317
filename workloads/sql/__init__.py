"""SQL as a second spelling of queries: a SELECT around the clause MATCH_RECOGNIZE."""
