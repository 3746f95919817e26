"""What this node has: the runtime, GPUs, commands and files."""
