"""What all systems driven by demand share."""
