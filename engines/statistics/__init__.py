"""Statistics of a stream, measured from a table or while a run goes on."""
