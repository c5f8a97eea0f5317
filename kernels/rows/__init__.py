"""Result rows: their order, and their texts."""
