"""The HTTP service: the app, its routes and pages, what it takes and answers."""
