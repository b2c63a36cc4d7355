"""Many batches at once into numpy arrays; it only accepts, kdump.format rejects."""
