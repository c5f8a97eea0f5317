"""MATCH_RECOGNIZE over columns: rows in order, conditions as bitmaps, matches, measures."""
