"""Plans and rewriting for people: text, pictures, traces."""
