"""Lost sales with two suppliers, and its policy families."""
