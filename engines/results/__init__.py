"""Result rows: tables, JSON text, sorted files."""
