"""How a package without a wheel is built for a module whose image has no compiler."""
