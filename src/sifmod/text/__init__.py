"""How values are quoted, measured, ordered and suggested in text."""
