"""SEM over machines: for each START that is active, a vector over the states of its patterns."""
