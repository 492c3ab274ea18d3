"""Lost sales with a lead time, and its policy families."""
