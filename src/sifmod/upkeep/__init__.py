"""What a centre asks of the modules that it has: newer tags, workflow managers."""
