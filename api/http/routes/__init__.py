"""HTTP routes: each validates, calls one function, and leaves errors to `api.http.problems`."""
