"""Event-time watermarks; pure."""
