"""Any finite Markov decision process."""
