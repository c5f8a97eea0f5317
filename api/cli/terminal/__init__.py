"""Tables, values and progress on a terminal."""
