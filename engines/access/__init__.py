"""Reading only the stored events that can matter: statistics of files, indexes, and the choice."""
