"""How an easyconfig is written, and how one in another style is converted."""
