"""How far each key comes in funnels, and how long it takes from step to step."""
