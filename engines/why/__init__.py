"""Why a query matched, or what the nearest miss lacked: counts, relaxations, and one event each."""
