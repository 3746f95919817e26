"""What users find and copy: installed and offered containers as data and as pages."""
