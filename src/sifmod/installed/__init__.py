"""What is there after an install: installation, verification, removal, kernel."""
