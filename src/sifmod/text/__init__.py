"""How values are quoted, measured, ordered and suggested."""
