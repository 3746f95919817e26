"""How text and an image become an installation on disk, and the way back."""
