"""Where an image comes from: URI, registry, credentials, store, signature, definition file."""
