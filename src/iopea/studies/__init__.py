"""Studies of the library itself: loaded only when called."""
