"""Layer by layer, where an exported file leaves its checkpoint."""
