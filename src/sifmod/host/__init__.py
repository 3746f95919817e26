"""What this node has: the runtime, GPUs, commands, files."""
