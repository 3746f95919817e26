"""A model of many nodes that start: how long it takes, and what a site can do about it."""
