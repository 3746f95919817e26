"""How values are quoted, measured, ordered and suggested.

Looks down at no other room.
"""
