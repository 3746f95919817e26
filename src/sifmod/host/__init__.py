"""What this node has: the runtime, GPUs, commands, files.

Looks down at: site, container, text.
"""
