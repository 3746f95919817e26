"""What a centre asks of the modules that it has: newer tags, bills of materials, findings of scanners, other tools."""
