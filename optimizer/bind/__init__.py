"""From a parsed workload to bound queries: names resolved, kinds checked, keys found."""
